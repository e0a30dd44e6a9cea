// The equations: coloured as they are typed, with the error under the very character, and typeset beside it.

import { latest, send } from "./api.js";
import { reachable } from "./charts.js";
import { at, h } from "./dom.js";
import { change, setup, store, tell } from "./store.js";

const WORD = /(#[^\n]*)|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([\p{L}_][\p{L}\p{N}_]*)|([\s\S])/gu;
let functions = new Set(), good = new Set(), free = new Set();  // the last two stay while what is typed is not whole

export function begin(words) {
  functions = new Set(words);
  const area = at("equations");
  area.addEventListener("input", () => change("equations", (doc) => { doc.equations = area.value; }));
  area.addEventListener("scroll", () => { at("painted").scrollTop = area.scrollTop; });
  new ResizeObserver(() => paint()).observe(area);
}

export function showEquations() {
  const area = at("equations");
  if (area.value !== store.doc.equations) area.value = store.doc.equations;
  area.rows = Math.max(5, Math.min(16, area.value.split("\n").length + 1));
  paint();
}

function paint() {
  const { model } = store.session, text = at("equations").value, painted = at("painted");
  if (model && model.ok) {
    good = new Set([...model.states, ...model.observables]);
    free = new Set(model.parameters);
  }
  const known = new Set(["t", "pi", "if", "piecewise", "at", "when", "steady", "and", "or", "not", "d", "dt"]);
  let mark = -1;
  if (model && !model.ok && model.place && model.text === text) {
    const lines = text.split("\n"), [line, column] = model.place;
    mark = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0) + Math.min(column - 1, (lines[line - 1] || "").length);
  }
  painted.replaceChildren();
  let place = 0, marked = false;
  for (const [whole, comment, number, name] of text.matchAll(WORD)) {
    const kind = comment ? "comment" : number ? "number" : !name ? "" : good.has(name) ? "state"
      : free.has(name) ? "parameter" : functions.has(name) || known.has(name) ? "function" : "parameter";
    const inside = mark >= place && mark < place + whole.length;
    if (inside && whole === "\n") { painted.append(h("span", { class: "here" }, "\u00a0")); marked = true; }
    painted.append(h("span", { class: (kind + (inside && whole !== "\n" ? " here" : "")).trim() }, whole));
    marked = marked || inside;
    place += whole.length;
  }
  if (mark >= 0 && !marked) painted.append(h("span", { class: "here" }, "\u00a0"));
  painted.append("\n");
  painted.scrollTop = at("equations").scrollTop;
}

// What the equations say, asked when they or the inputs have changed.
let asked = null;
const look = latest(async (current, equations, inputs) => {
  const model = equations.trim() ? await send("/api/model", { equations, inputs }) : { ok: false, error: "", place: null };
  if (!current()) return;
  store.session.model = { ...model, text: equations };
  if (model.ok) pair(model);
  tell("model");
}, 120);

export function consider() {
  const { equations, inputs } = setup(), key = JSON.stringify([equations, inputs]);
  if (key === asked) return;
  asked = key;
  look(equations, inputs);
}
export function forget() { asked = null; }

// Columns that are called like what the model has, and parameters that are new.
function pair(model) {
  const known = [...model.states, ...model.observables];
  const { doc } = store, like = (a, b) => a.toLowerCase().replace(/[\s_]/g, "") === b.toLowerCase().replace(/[\s_]/g, "");
  const taken = new Set(Object.values(doc.roles).filter((r) => r.role === "measured").map((r) => r.name));
  for (const [column, one] of Object.entries(doc.roles)) {
    if (one.role !== "measured" || known.includes(one.name)) continue;
    const found = known.find((n) => !taken.has(n) && (like(n, one.name) || like(n, column)));
    if (found) { one.name = found; taken.add(found); }
  }
  const lost = Object.values(doc.roles).filter((r) => r.role === "measured" && !known.includes(r.name));
  const open = model.states.filter((n) => !taken.has(n));
  if (lost.length === 1 && open.length === 1 && known.length === 1) lost[0].name = open[0];
  for (const name of model.parameters) {
    if (!doc.parameters[name]) doc.parameters[name] = { value: 1, low: null, high: null, fixed: false, log: false };
  }
}

export function showModel() {
  const { model } = store.session, wrong = at("wrong"), known = at("known");
  paint();
  if (!model || (!model.ok && !model.error)) { wrong.textContent = ""; at("math").replaceChildren(); known.replaceChildren(); return; }
  if (!model.ok) {
    at("math").replaceChildren();
    known.replaceChildren();
    const place = model.place ? `line ${model.place[0]}, column ${model.place[1]}: ` : "";
    wrong.textContent = place + model.error;
    at("equations").setAttribute("aria-invalid", "true");
    return;
  }
  wrong.textContent = "";
  at("equations").removeAttribute("aria-invalid");
  at("math").innerHTML = model.math;
  reachable(at("model"));
  const measured = new Set(Object.values(store.doc.roles).filter((r) => r.role === "measured").map((r) => r.name));
  const rows = [["states", model.states.filter((s) => measured.has(s) || !store.session.table)],
    ["hidden states", store.session.table ? model.states.filter((s) => !measured.has(s)) : []],
    ["expressions", model.observables], ["inputs", model.inputs], ["parameters", model.parameters],
    ["initial values given", Object.entries(model.initial).map(([s, e]) => `${s}(0) = ${e}`)],
    ["initial values estimated", model.free.filter((s) => !measured.has(s) && store.session.table)], ["events", model.events]];
  known.replaceChildren(...rows.filter(([, list]) => list.length).map(([what, list]) => h("p", {}, h("b", {}, what + ": "), list.join(", "))));
}
