// Headings of rules begin with an anchor (`<a id="delta-L1">`), which Zensical 0.0.73 copies into the links of "On this
// page". A link cannot stand in a link, so browsers end the outer one there, and its text is no link. Put it back.
for (const link of document.querySelectorAll(".md-nav--secondary .md-nav__link")) {
  if (link.textContent.trim() === "" && link.parentElement.tagName === "LI") {
    const outside = [...link.parentElement.childNodes].filter((node) => node !== link && node.nodeName !== "NAV");
    const text = outside.map((node) => node.textContent).join(" ").trim();
    for (const node of outside) node.remove();
    link.textContent = text;
  }
}
// The link of such a heading is the anchor that errors name.
for (const anchor of document.querySelectorAll("h3 > a[id]:first-child")) {
  anchor.parentElement.querySelector(".headerlink").setAttribute("href", `#${anchor.id}`);
}
// Of many headings "On this page" shows the topics, and those below the topic that is read.
for (const list of document.querySelectorAll(".md-nav--secondary")) {
  list.classList.toggle("topics", list.querySelectorAll("li").length > 60);
}

// A number sign in what a command prints is no prompt of root, and the rest of its line no command.
for (const sign of document.querySelectorAll(".highlight .gp")) {
  if (sign.textContent.trim() !== "#") continue;
  const line = document.createElement("span");
  line.className = "go";
  sign.before(line);
  for (let node = sign; node && !line.textContent.includes("\n"); node = line.nextSibling) line.append(node);
  line.textContent = line.textContent; // without the colours of a command
}

// Copied from a console are the commands: no prompt, and nothing that a command prints.
for (const code of document.querySelectorAll(".highlight code")) {
  const commands = [];
  let end = null; // the line that ends the command, where more than one line belongs to it
  for (const line of code.textContent.split("\n")) {
    const begins = line.startsWith("$ ");
    if (!begins && end === null) continue;
    commands.push(begins ? line.slice(2) : line);
    const typed = begins && /<<'(\w+)'/.exec(line);
    if (typed) end = typed[1];
    else if (end === null || end === "\\") end = line.endsWith("\\") ? "\\" : null;
    else if (line === end) end = null;
  }
  if (commands.length) code.dataset.copy = commands.join("\n");
}

// Sentences that a command prints wrap at the edge of the box. Output in columns scrolls instead.
for (const code of document.querySelectorAll(".highlight code[data-copy]")) {
  const wide = code.textContent.split("\n").filter((line) => line.length > 90);
  code.classList.toggle("wraps", !wide.some((line) => line.trim().split(/ {2,}/).length > 4));
}

// A short name in a table stays on one line.
for (const code of document.querySelectorAll("td > code:only-child")) {
  code.classList.toggle("whole", /^\S{1,20}$/.test(code.textContent));
}

// Code that is wider than its box scrolls by keys too.
for (const code of document.querySelectorAll("pre > code")) {
  if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
}

// A cell of the table of readers has the colour of the worst that it counts; its sign says the same without colour.
const KINDS = { "✗": "wrong", "!": "error", "–": "unsupported", "?": "open", "✓": "right" };
for (const cell of document.querySelectorAll(".readers td:not(:first-child)")) {
  const kind = Object.keys(KINDS).find((sign) => cell.textContent.includes(`${sign} `));
  if (kind) cell.classList.add(KINDS[kind]);
}
// Bundled scripts wrap tables when the page is ready; the box then scrolls by keys too.
for (const table of document.querySelectorAll(".readers table")) {
  new MutationObserver((_, observer) => {
    const box = table.closest(".md-typeset__scrollwrap");
    if (!box) return;
    observer.disconnect();
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Readers and features");
  }).observe(document.querySelector(".readers"), { childList: true, subtree: true });
}
for (const text of document.querySelectorAll(".readers > p")) {
  if (!text.textContent.startsWith("✓")) continue;
  text.classList.add("legend");
  text.replaceChildren(
    ...text.textContent.split(" · ").map((part) => {
      const entry = document.createElement("span");
      entry.textContent = part;
      if (part[0] in KINDS) entry.className = KINDS[part[0]];
      return entry;
    }),
  );
}
