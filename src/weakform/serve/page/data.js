// The table: what its columns are, its cells, and what looks wrong in them.

import { send } from "./api.js";
import { reachable } from "./charts.js";
import { at, h, options } from "./dom.js";
import { change, guessed, plainName, reset, store, tell } from "./store.js";

const NOISE = [["", "equal errors"], ["lognormal", "errors in per cent"], ["poisson", "counts"], ["student", "heavy tails"]];
const NS = "http://www.w3.org/2000/svg";
let first = 0, drawn = null;

export function showTable() {
  const { table, model } = store.session, { doc } = store, holder = at("table");
  const key = JSON.stringify([table && table.table, table && table.sheet, doc.roles, doc.missing, names(model)]);
  if (key === drawn) return;
  drawn = key;
  if (!table) { holder.replaceChildren(); return; }
  const focus = document.activeElement && document.activeElement.id;
  const told = h("p", { class: "hint" }, `${table.file}: ${counted(table.rows, "row")}, ${counted(table.columns.length, "column")}.`,
    ...(table.notes || []).map((note) => " " + note));
  const body = table.columns.map((column) => row(column, doc.roles[column.name] || { role: "", name: "" }, model));
  const head = h("thead", {}, h("tr", {}, ...["column", "values", "what it is", "unit"].map((w) => h("th", { scope: "col" }, w))));
  const sheets = table.sheets && table.sheets.length > 1 ? h("p", {}, h("label", {}, "Sheet ", sheetSelect(table))) : null;
  holder.replaceChildren(...[told, sheets, h("div", { class: "wide tall", ...(table.columns.length > 8 ? { tabindex: "0", role: "group", "aria-label": "Columns" } : {}) }, h("table", { class: "columns" }, head, h("tbody", {}, ...body))),
    problems(table), cells(table)].filter(Boolean));
  reachable(holder);
  if (focus && at(focus)) at(focus).focus();
}

const counted = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
function names(model) { return model && model.ok ? [...model.states, ...model.observables] : []; }

function sheetSelect(table) {
  const select = h("select", { id: "sheet", onchange: (event) => {
    const sheet = event.target.value;
    turned(table, sheet, (found) => ({ ...store.doc, sheet, roles: guessed(found), missing: [], initial: {} }))
      .catch((error) => { at("trouble").textContent = error.message; });
  } });
  options(select, table.sheets.map((s) => [s, s]), table.sheet || table.sheets[0]);
  return select;
}

// Another sheet of the same file: its columns are others, so that there is no way back by a step.
export async function turned(table, sheet, doc) {
  const found = await send("/api/sheet", { table: table.table, sheet });
  store.session.table = { ...table, ...found };
  reset(doc(found));
  fresh();
  tell("table");
  tell("doc");
}

function row(column, said, model) {
  const id = "role-" + column.name, known = names(model);
  const choices = [["", "not used"], ["time", "time"], ["trajectory", "tells trajectories apart"], ["input", "known input: " + plainName(column.name)]];
  choices.push(...(known.length ? known.map((n) => ["=" + n, "measured: " + n]) : [["=", "measured"]]));
  let now = said.role === "measured" ? "=" + (known.length ? said.name : "") : said.role;
  if (!choices.some(([value]) => value === now)) {
    choices.push([now, known.length ? `measured: ${said.name} (not in the model)` : "measured"]);
  }
  const select = h("select", { id, "aria-label": `What ${column.name} is`, onchange: (event) => {
    const value = event.target.value;
    change("role " + column.name, (doc) => {
      for (const one of Object.values(doc.roles)) {  // one column each
        if (["time", "trajectory"].includes(value) && one.role === value) one.role = "";
        if (value.startsWith("=") && value.length > 1 && one.role === "measured" && one.name === value.slice(1)) one.role = "";
      }
      const one = doc.roles[column.name] = doc.roles[column.name] || { name: column.name, noise: "", unit: "" };
      one.role = value.startsWith("=") ? "measured" : value;
      if (value.length > 1 && value.startsWith("=")) one.name = value.slice(1);
      if (value === "input") one.name = plainName(column.name);
    });
  } });
  options(select, choices, now);
  const noise = h("select", { id: "noise-" + column.name, "aria-label": `Noise of ${column.name}`, onchange: (event) => {
    change("noise " + column.name, (doc) => { doc.roles[column.name].noise = event.target.value; });
  } });
  options(noise, NOISE, said.noise || "");
  const unit = h("input", { id: "unit-" + column.name, size: 6, value: said.unit || "", "aria-label": `Unit of ${column.name}`, oninput: (event) => {
    change("unit " + column.name, (doc) => { doc.roles[column.name].unit = event.target.value; });
    drawn = JSON.stringify([store.session.table.table, store.session.table.sheet, store.doc.roles, store.doc.missing, names(store.session.model)]);
  } });
  const more = column.kind === "word" ? `${column.different} different ${column.different === 1 ? "word" : "words"}` : column.missing ? `${column.missing} missing` : "";
  return h("tr", {}, h("th", { scope: "row", title: column.name }, column.name), h("td", {}, spark(column), h("span", { class: "hint" }, more)),
    h("td", {}, h("div", { class: "two" }, select, said.role === "measured" ? noise : null)), h("td", {}, unit));
}

function spark(column) {
  if (!column.spark.length || !column.spark[0].length) return h("span");
  const [x, y] = column.spark, svg = document.createElementNS(NS, "svg"), path = document.createElementNS(NS, "path");
  const low = Math.min(...y), high = Math.max(...y), wide = (x[x.length - 1] - x[0]) || 1, tall = (high - low) || 1;
  path.setAttribute("d", x.map((v, k) => `${k ? "L" : "M"}${(100 * (v - x[0]) / wide).toFixed(1)} ${(28 - 26 * (y[k] - low) / tall).toFixed(1)}`).join(""));
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
  const left = table.problems.filter((p) => !doc.missing.includes(p.value) && doc.roles[p.column] && doc.roles[p.column].role !== "");
  if (!left.length && !doc.missing.length) return null;
  const items = left.slice(0, 8).map((p) => h("li", {}, p.text + ". ",
    h("button", { type: "button", onclick: () => go(p.row) }, "show"),
    p.value === null ? null : [" ", h("button", { type: "button", onclick: () => change("missing", (d) => { d.missing.push(p.value); }) },
      `treat ${p.value} as missing`)]));
  if (left.length > 8) items.push(h("li", {}, `and ${left.length - 8} more.`));
  for (const value of doc.missing) {
    items.push(h("li", {}, `${value} is treated as missing. `, h("button", { type: "button", onclick: () => change("missing", (d) => {
      d.missing = d.missing.filter((v) => v !== value);
    }) }, typeof value === "number" ? "take it as a number" : "no longer")));
  }
  return h("ul", { class: "problems", "aria-label": "What looks wrong in the table" }, ...items);
}

function cells(table) {
  const odd = new Set(table.problems.filter((p) => !store.doc.missing.includes(p.value)).map((p) => p.row + " " + p.column));
  const why = new Map(table.problems.map((p) => [p.row + " " + p.column, p.text]));
  const names = table.columns.map((c) => c.name);
  const head = h("tr", {}, h("th", { scope: "col" }, "row"), ...names.map((n) => h("th", { scope: "col" }, n)));
  const lines = table.head.map((line, k) => h("tr", {}, h("th", { scope: "row" }, String(first + k + 1)), ...line.map((cell, j) => {
    const place = (first + k) + " " + names[j];
    return h("td", odd.has(place) ? { class: "odd", title: why.get(place) } : {}, cell);
  })));
  const last = first + table.head.length;
  const move = (to, text) => h("button", { type: "button", disabled: to < 0 || to >= table.rows || to === first, onclick: () => go(to) }, text);
  return h("details", { open: table.problems.length > 0 }, h("summary", {}, "Rows"),
    h("div", { class: "cells", tabindex: "0", role: "region", "aria-label": "Rows of the table" }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines))),
    table.rows > table.head.length ? h("div", { class: "row" }, move(first - 60 < 0 && first > 0 ? 0 : first - 60, "earlier"),
      h("span", { class: "hint" }, `${(first + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ${table.rows.toLocaleString("en")}`),
      move(last, "later")) : null);
}

async function go(row) {
  const { table } = store.session;
  const begin = row >= first && row < first + table.head.length ? first : Math.max(0, row - (row === first + table.head.length || row < first ? 0 : 5));
  if (begin !== first) table.head = (await send("/api/rows", { table: table.table, sheet: table.sheet, first: begin })).rows;
  first = begin;
  drawn = null;
  showTable();
  const details = at("table").querySelector("details");
  details.open = true;
  const odd = at("table").querySelector("td.odd");
  if (odd) odd.scrollIntoView({ block: "nearest" });
}

export function fresh() { first = 0; drawn = null; }
