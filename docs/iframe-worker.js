// Browsers start no worker for a page on disk (file://), and the search is one. There, a worker is a script in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.inside = new Promise((found, failed) => {
        this.frame.onload = () => {
          this.frame.onload = null;
          const inside = this.frame.contentWindow;
          const script = inside.document.createElement("script");
          inside.postMessage = (data) => this.onmessage?.({ data });
          script.onload = () => found(inside);
          script.onerror = failed;
          script.src = new URL(address, location.href);
          inside.document.head.append(script);
        };
      });
      this.inside.catch((problem) => this.onerror?.(problem));
      document.body.append(this.frame);
    }
    postMessage(data) {
      this.inside.then((inside) => inside.onmessage({ data }), () => {});
    }
    terminate() {
      this.frame.remove();
    }
  };
}
