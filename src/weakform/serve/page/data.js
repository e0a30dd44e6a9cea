// The table: the roles of its columns, its cells, and the problems in them.

import { send } from "./api.js";
import { makeScrollable } from "./charts.js";
import { byId, h, setOptions } from "./dom.js";
import { changeDoc, guessRoles, toName, resetDoc, store, notify } from "./store.js";

const NOISE = [["", "constant error"], ["lognormal", "relative error"], ["poisson", "counts"], ["student", "heavy tails"]];
const NS = "http://www.w3.org/2000/svg";
const MAX_SHOWN_PROBLEMS = 8, ROWS_PER_REQUEST = 60, ROWS_BEFORE_PROBLEM = 5;
let firstRow = 0, drawnKey = null;  // the first row that is shown, and what the table was drawn for

export function showTable() {
  const { table, model } = store.session, { doc } = store, holder = byId("table");
  const key = JSON.stringify([table && table.table, table && table.sheet, doc.roles, doc.missing, names(model)]);
  if (key === drawnKey) return;
  drawnKey = key;
  if (!table) { holder.replaceChildren(); return; }
  const focus = document.activeElement && document.activeElement.id;
  const summary = h("p", { class: "hint" }, `${table.file}: ${counted(table.rows, "row")}, ${counted(table.columns.length, "column")}.`,
    ...(table.notes || []).map((note) => " " + note));
  const body = table.columns.map((column) => row(column, doc.roles[column.name] || { role: "", name: "" }, model));
  const head = h("thead", {}, h("tr", {}, ...["column", "values", "role", "unit"].map((w) => h("th", { scope: "col" }, w))));
  const sheets = table.sheets && table.sheets.length > 1 ? h("p", {}, h("label", {}, "Sheet ", sheetSelect(table))) : null;
  holder.replaceChildren(...[summary, sheets, h("div", { class: "wide tall", ...(table.columns.length > 8 ? { tabindex: "0", role: "group", "aria-label": "Columns" } : {}) }, h("table", { class: "columns" }, head, h("tbody", {}, ...body))),
    problems(table), cells(table)].filter(Boolean));
  makeScrollable(holder);
  if (focus && byId(focus)) byId(focus).focus();
}

const counted = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
function names(model) { return model && model.ok ? [...model.states, ...model.observables] : []; }

function sheetSelect(table) {
  const select = h("select", { id: "sheet", onchange: (event) => {
    const sheet = event.target.value;
    switchSheet(table, sheet, (description) => ({ ...store.doc, sheet, roles: guessRoles(description), missing: [], initial: {} }))
      .catch((error) => { byId("trouble").textContent = error.message; });
  } });
  setOptions(select, table.sheets.map((s) => [s, s]), table.sheet || table.sheets[0]);
  return select;
}

// Another sheet of the same file. It has other columns, so that the change cannot be undone.
export async function switchSheet(table, sheet, doc) {
  const description = await send("/api/sheet", { table: table.table, sheet });
  store.session.table = { ...table, ...description };
  resetDoc(doc(description));
  resetTableView();
  notify("table");
  notify("doc");
}

function row(column, role, model) {
  const id = "role-" + column.name, known = names(model);
  const choices = [["", "not used"], ["time", "time"], ["trajectory", "trajectory label"], ["input", "input: " + toName(column.name)]];
  choices.push(...(known.length ? known.map((n) => ["=" + n, "measured: " + n]) : [["=", "measured"]]));
  let current = role.role === "measured" ? "=" + (known.length ? role.name : "") : role.role;
  if (!choices.some(([value]) => value === current)) {
    choices.push([current, known.length ? `measured: ${role.name} (not in the model)` : "measured"]);
  }
  const select = h("select", { id, "aria-label": `Role of ${column.name}`, onchange: (event) => {
    const value = event.target.value;
    changeDoc("role " + column.name, (doc) => {
      for (const other of Object.values(doc.roles)) {  // these roles can be taken only once
        if (["time", "trajectory"].includes(value) && other.role === value) other.role = "";
        if (value.startsWith("=") && value.length > 1 && other.role === "measured" && other.name === value.slice(1)) other.role = "";
      }
      const changed = doc.roles[column.name] = doc.roles[column.name] || { name: column.name, noise: "", unit: "" };
      changed.role = value.startsWith("=") ? "measured" : value;
      if (value.length > 1 && value.startsWith("=")) changed.name = value.slice(1);
      if (value === "input") changed.name = toName(column.name);
    });
  } });
  setOptions(select, choices, current);
  const noise = h("select", { id: "noise-" + column.name, "aria-label": `Noise of ${column.name}`, onchange: (event) => {
    changeDoc("noise " + column.name, (doc) => { doc.roles[column.name].noise = event.target.value; });
  } });
  setOptions(noise, NOISE, role.noise || "");
  const unit = h("input", { id: "unit-" + column.name, size: 6, value: role.unit || "", "aria-label": `Unit of ${column.name}`, oninput: (event) => {
    changeDoc("unit " + column.name, (doc) => { doc.roles[column.name].unit = event.target.value; });
    drawnKey = JSON.stringify([store.session.table.table, store.session.table.sheet, store.doc.roles, store.doc.missing, names(store.session.model)]);
  } });
  const remark = column.kind === "word" ? `${column.different} distinct ${column.different === 1 ? "value" : "values"}` : column.missing ? `${column.missing} missing` : "";
  return h("tr", {}, h("th", { scope: "row", title: column.name }, column.name), h("td", {}, spark(column), h("span", { class: "hint" }, remark)),
    h("td", {}, h("div", { class: "two" }, select, role.role === "measured" ? noise : null)), h("td", {}, unit));
}

function spark(column) {
  if (!column.spark.length || !column.spark[0].length) return h("span");
  const [x, y] = column.spark, svg = document.createElementNS(NS, "svg"), path = document.createElementNS(NS, "path");
  const low = Math.min(...y), high = Math.max(...y), width = (x[x.length - 1] - x[0]) || 1, height = (high - low) || 1;
  path.setAttribute("d", x.map((v, k) => `${k ? "L" : "M"}${(100 * (v - x[0]) / width).toFixed(1)} ${(28 - 26 * (y[k] - low) / height).toFixed(1)}`).join(""));
  svg.setAttribute("viewBox", "0 0 100 30");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${column.name}: from ${low} to ${high}`);
  svg.append(path);
  return svg;
}

function problems(table) {
  const { doc } = store;
  const open = table.problems.filter((p) => !doc.missing.includes(p.value) && doc.roles[p.column] && doc.roles[p.column].role !== "");
  if (!open.length && !doc.missing.length) return null;
  const items = open.slice(0, MAX_SHOWN_PROBLEMS).map((p) => h("li", {}, p.text + ". ",
    h("button", { type: "button", onclick: () => showRow(p.row) }, "Show"),
    p.value === null ? null : [" ", h("button", { type: "button", onclick: () => changeDoc("missing", (d) => { d.missing.push(p.value); }) },
      `Treat ${p.value} as missing`)]));
  if (open.length > MAX_SHOWN_PROBLEMS) items.push(h("li", {}, `And ${open.length - MAX_SHOWN_PROBLEMS} more.`));
  for (const value of doc.missing) {
    items.push(h("li", {}, `${value} is treated as missing. `, h("button", { type: "button", onclick: () => changeDoc("missing", (d) => {
      d.missing = d.missing.filter((v) => v !== value);
    }) }, "Do not treat it as missing")));
  }
  return h("ul", { class: "problems", "aria-label": "Problems in the table" }, ...items);
}

function cells(table) {
  const odd = new Set(table.problems.filter((p) => !store.doc.missing.includes(p.value)).map((p) => p.row + " " + p.column));
  const why = new Map(table.problems.map((p) => [p.row + " " + p.column, p.text]));
  const names = table.columns.map((c) => c.name);
  const head = h("tr", {}, h("th", { scope: "col" }, "row"), ...names.map((n) => h("th", { scope: "col" }, n)));
  const lines = table.head.map((line, k) => h("tr", {}, h("th", { scope: "row" }, String(firstRow + k + 1)), ...line.map((cell, j) => {
    const cellKey = (firstRow + k) + " " + names[j];
    return h("td", odd.has(cellKey) ? { class: "odd", title: why.get(cellKey) } : {}, cell);
  })));
  const last = firstRow + table.head.length;
  const move = (to, text) => h("button", { type: "button", disabled: to < 0 || to >= table.rows || to === firstRow, onclick: () => showRow(to) }, text);
  return h("details", { open: table.problems.length > 0 }, h("summary", {}, "Rows"),
    h("div", { class: "cells", tabindex: "0", role: "region", "aria-label": "Rows of the table" }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines))),
    table.rows > table.head.length ? h("div", { class: "row" }, move(firstRow - ROWS_PER_REQUEST < 0 && firstRow > 0 ? 0 : firstRow - ROWS_PER_REQUEST, "Previous"),
      h("span", { class: "hint" }, `${(firstRow + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ${table.rows.toLocaleString("en")}`),
      move(last, "Next")) : null);
}

// Show a row; if it is not among those loaded, it is loaded with a few rows before it.
async function showRow(row) {
  const { table } = store.session;
  const begin = row >= firstRow && row < firstRow + table.head.length ? firstRow : Math.max(0, row - (row === firstRow + table.head.length || row < firstRow ? 0 : ROWS_BEFORE_PROBLEM));
  if (begin !== firstRow) table.head = (await send("/api/rows", { table: table.table, sheet: table.sheet, first: begin })).rows;
  firstRow = begin;
  drawnKey = null;
  showTable();
  const details = byId("table").querySelector("details");
  details.open = true;
  const odd = byId("table").querySelector("td.odd");
  if (odd) odd.scrollIntoView({ block: "nearest" });
}

export function resetTableView() { firstRow = 0; drawnKey = null; }
