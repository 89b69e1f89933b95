
"use strict";
(() => {
  const form = document.querySelector("form.filter");
  if (form === null) return;
  const rows = [...document.querySelectorAll("tbody.difference")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const choices = [...form.querySelectorAll("input[name=only]")];
  const find = form.elements.namedItem("find");

  function show() {
    const only = choices.find((choice) => choice.checked).value;
    const wanted = find.value.toLowerCase();
    let matching = 0;
    rows.forEach((row, number) => {
      row.hidden = (only !== "all" && row.dataset.kind !== only) || !texts[number].includes(wanted);
      matching += row.hidden ? 0 : 1;
    });
    document.getElementById("none").hidden = matching > 0;
    document.getElementById("matching").textContent = matching === rows.length ? "" : `${matching} of ${rows.length} shown`;
  }

  function readAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const only = wanted.get("only") ?? "all";
    const choice = choices.find((each) => each.value === only) ?? choices[0];
    choice.checked = true;
    find.value = wanted.get("find") ?? "";
    show();
  }

  form.querySelector(".find").hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", readAddress);
  readAddress();
})();
