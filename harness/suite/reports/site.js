// The filter of the list of scenarios: it shows rows, and of a chosen reader its column; the address keeps it.
"use strict";
const form = document.getElementById("filter");
if (form) {
  const list = document.getElementById("list"), output = document.getElementById("matching");
  const rows = [...list.tBodies[0].rows].map((row) => ({
    row,
    text: row.cells[0].textContent.toLowerCase(),
    features: row.dataset.features.split(" "),
    outcomes: new Map([...row.cells].slice(1).map((cell) => [cell.dataset.reader, cell.className])),
  }));
  const chosen = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));

  const apply = () => {
    const {reader, outcome, format, feature, find} = chosen();
    let shown = 0;
    for (const {row, text, features, outcomes} of rows) {
      const of = reader ? [outcomes.get(reader)] : [...outcomes.values()];
      row.hidden = !((!outcome || of.includes(outcome)) && (!format || row.dataset.format === format)
        && (!feature || features.includes(feature)) && (!find || text.includes(find.toLowerCase())));
      shown += row.hidden ? 0 : 1;
    }
    for (const cell of list.querySelectorAll("[data-reader]"))
      cell.hidden = Boolean(reader) && cell.dataset.reader !== reader;
    output.textContent = `${shown} of ${rows.length}`;
  };

  const restore = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const field of form.elements) if (field.name) field.value = given.get(field.name) ?? "";
    apply();
  };

  form.addEventListener("input", () => {
    history.replaceState(null, "", `#${new URLSearchParams(chosen())}`);
    apply();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", restore);
  form.hidden = false;
  restore();
}
