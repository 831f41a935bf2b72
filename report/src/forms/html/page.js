// Sorts and filters tables. The page is complete without it.
"use strict";
const text = (row, column) => row.cells[column]?.textContent.trim() ?? "";
/** The sort key of a cell: the declared position of an axis value, the number in a column of figures, or else its
    text, because dates and versions begin with digits too. */
const key = (row, column, head, ranked) => {
  const content = text(row, column);
  const number = head.classList.contains("n") ? parseFloat(content.replaceAll(",", "")) : undefined;
  return ranked.get(content) ?? (Number.isFinite(number) ? number : content);
};
const ranks = (head) => new Map((head.dataset.declared?.split("\n") ?? []).map((value, rank) => [value.trim(), rank]));
const compare = (left, right) =>
  typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right), "en", { numeric: true });

function sort(table, head, column) {
  const upwards = head.ariaSort !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", upwards ? "ascending" : "descending");
  const body = table.tBodies[0];
  const ranked = ranks(head);
  const keyed = [...body.rows].map((row) => [key(row, column, head, ranked), row]);
  keyed.sort(([left], [right]) => (left === "") - (right === "") || (upwards ? 1 : -1) * compare(left, right));
  body.append(...keyed.map(([, row]) => row));
}

function filters(table, heads) {
  const form = document.createElement("form");
  form.className = "filters";
  const choices = [];
  const apply = () => {
    for (const row of table.tBodies[0].rows) row.hidden = choices.some(([column, select]) => select.value !== "" && value(row, column) !== select.value);
  };
  const value = (row, column) => row.cells[column]?.querySelector(".tag")?.textContent ?? text(row, column);
  heads.forEach((head, column) => {
    const values = [...new Set([...table.tBodies[0].rows].map((row) => value(row, column)))];
    if (!("filter" in head.dataset) || values.length < 2) return;
    const select = document.createElement("select");
    const name = head.textContent.trim();
    select.setAttribute("aria-label", `Show only this ${name}`);
    select.append(new Option(`${name}: all`, ""), ...values.map((each) => new Option(each || "(none)", each)));
    select.addEventListener("change", apply);
    choices.push([column, select]);
    form.append(select);
  });
  if (choices.length > 0 && table.tBodies[0].rows.length > 3) table.closest(".box").before(form);
}

for (const table of document.querySelectorAll("table.sort")) {
  const heads = [...table.tHead.rows[0].cells];
  filters(table, heads);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, head, column));
    head.append(button);
  });
}
