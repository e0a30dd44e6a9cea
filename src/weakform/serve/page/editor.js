// The editor of the equations: it colours names, underlines the character of an error, and shows the typeset equations.

import { onlyLatest, send } from "./api.js";
import { makeScrollable } from "./charts.js";
import { byId, h } from "./dom.js";
import { changeDoc, buildSetup, store, notify } from "./store.js";

const WORD = /(#[^\n]*)|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([\p{L}_][\p{L}\p{N}_]*)|([\s\S])/gu;
let functions = new Set(), stateNames = new Set(), parameterNames = new Set();  // states and parameters of the last valid equations

export function startEditor(functionNames) {
  functions = new Set(functionNames);
  const area = byId("equations");
  area.addEventListener("input", () => changeDoc("equations", (doc) => { doc.equations = area.value; }));
  area.addEventListener("scroll", () => { byId("painted").scrollTop = area.scrollTop; });
  new ResizeObserver(() => paint()).observe(area);
}

export function showEquations() {
  const area = byId("equations");
  if (area.value !== store.doc.equations) area.value = store.doc.equations;
  area.rows = Math.max(5, Math.min(16, area.value.split("\n").length + 1));
  paint();
}

function paint() {
  const { model } = store.session, text = byId("equations").value, painted = byId("painted");
  if (model && model.ok) {
    stateNames = new Set([...model.states, ...model.observables]);
    parameterNames = new Set(model.parameters);
  }
  const keywords = new Set(["t", "pi", "if", "piecewise", "at", "when", "steady", "and", "or", "not", "d", "dt"]);
  let mark = -1;
  if (model && !model.ok && model.place && model.text === text) {
    const lines = text.split("\n"), [line, column] = model.place;
    mark = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0) + Math.min(column - 1, (lines[line - 1] || "").length);
  }
  painted.replaceChildren();
  let position = 0, isMarked = false;
  for (const [whole, comment, number, name] of text.matchAll(WORD)) {
    const kind = comment ? "comment" : number ? "number" : !name ? "" : stateNames.has(name) ? "state"
      : parameterNames.has(name) ? "parameter" : functions.has(name) || keywords.has(name) ? "function" : "parameter";
    const hasMark = mark >= position && mark < position + whole.length;
    if (hasMark && whole === "\n") { painted.append(h("span", { class: "error-mark" }, "\u00a0")); isMarked = true; }
    painted.append(h("span", { class: (kind + (hasMark && whole !== "\n" ? " error-mark" : "")).trim() }, whole));
    isMarked = isMarked || hasMark;
    position += whole.length;
  }
  if (mark >= 0 && !isMarked) painted.append(h("span", { class: "error-mark" }, "\u00a0"));
  painted.append("\n");
  painted.scrollTop = byId("equations").scrollTop;
}

// The equations are parsed again when they or the inputs have changed.
let parsedKey = null;
const parse = onlyLatest(async (isCurrent, equations, inputs) => {
  const model = equations.trim() ? await send("/api/model", { equations, inputs }) : { ok: false, error: "", place: null };
  if (!isCurrent()) return;
  store.session.model = { ...model, text: equations };
  if (model.ok) adaptDoc(model);
  notify("model");
}, 120);

export function parseIfChanged() {
  const { equations, inputs } = buildSetup(), key = JSON.stringify([equations, inputs]);
  if (key === parsedKey) return;
  parsedKey = key;
  parse(equations, inputs);
}
export function forgetParsed() { parsedKey = null; }

// Assign columns to states and expressions with the same name, and add new parameters.
function adaptDoc(model) {
  const known = [...model.states, ...model.observables];
  const { doc } = store, isSameName = (a, b) => a.toLowerCase().replace(/[\s_]/g, "") === b.toLowerCase().replace(/[\s_]/g, "");
  const taken = new Set(Object.values(doc.roles).filter((r) => r.role === "measured").map((r) => r.name));
  for (const [column, role] of Object.entries(doc.roles)) {
    if (role.role !== "measured" || known.includes(role.name)) continue;
    const match = known.find((n) => !taken.has(n) && (isSameName(n, role.name) || isSameName(n, column)));
    if (match) { role.name = match; taken.add(match); }
  }
  const unassigned = Object.values(doc.roles).filter((r) => r.role === "measured" && !known.includes(r.name));
  const unmeasured = model.states.filter((n) => !taken.has(n));
  if (unassigned.length === 1 && unmeasured.length === 1 && known.length === 1) unassigned[0].name = unmeasured[0];
  for (const name of model.parameters) {
    if (!doc.parameters[name]) doc.parameters[name] = { value: 1, low: null, high: null, fixed: false, log: false };
  }
}

export function showModel() {
  const { model } = store.session, wrong = byId("wrong"), summary = byId("known");
  paint();
  if (!model || (!model.ok && !model.error)) { wrong.textContent = ""; byId("math").replaceChildren(); summary.replaceChildren(); return; }
  if (!model.ok) {
    byId("math").replaceChildren();
    summary.replaceChildren();
    const place = model.place ? `Line ${model.place[0]}, column ${model.place[1]}: ` : "";
    wrong.textContent = place + model.error;
    byId("equations").setAttribute("aria-invalid", "true");
    return;
  }
  wrong.textContent = "";
  byId("equations").removeAttribute("aria-invalid");
  byId("math").innerHTML = model.math;
  makeScrollable(byId("model"));
  const measured = new Set(Object.values(store.doc.roles).filter((r) => r.role === "measured").map((r) => r.name));
  const rows = [["States", model.states.filter((s) => measured.has(s) || !store.session.table)],
    ["Hidden states", store.session.table ? model.states.filter((s) => !measured.has(s)) : []],
    ["Expressions", model.observables], ["Inputs", model.inputs], ["Parameters", model.parameters],
    ["Given initial values", Object.entries(model.initial).map(([s, e]) => `${s}(0) = ${e}`)],
    ["Estimated initial values", model.free.filter((s) => !measured.has(s) && store.session.table)], ["Events", model.events]];
  summary.replaceChildren(...rows.filter(([, list]) => list.length).map(([label, list]) => h("p", {}, h("b", {}, label + ": "), list.join(", "))));
}
