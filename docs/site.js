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
