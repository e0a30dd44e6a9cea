// Parameters: sliders that move the solution at once; bounds, fixed values, log scales.

import { reachable } from "./charts.js";
import { at, h } from "./dom.js";
import { change, store } from "./store.js";

const STEPS = 400;
let drawn = null, anchors = {};  // where the sliders of initial values began
const begun = (state) => ({ value: store.doc.initial[state][0], low: null, high: null, around: Math.abs(anchors[state] ??= store.doc.initial[state][0]) });

function ends(one) {
  const size = Math.abs(one.value) || 1;
  if (one.low !== null && one.high !== null && one.high > one.low) return [one.low, one.high];
  if (one.value < 0) return [one.low ?? -10 * size, one.high ?? 10 * size];
  const unit = Math.pow(10, Math.round(Math.log10(one.around > 0 ? one.around : size)));
  return [one.low ?? unit / 100, one.high ?? Math.max(unit * 100, 2 * size)];
}
const logarithmic = ([low, high]) => low > 0 && high / low >= 50;
function toShare(one) {
  const [low, high] = ends(one), value = Math.min(Math.max(one.value, low), high);
  return logarithmic([low, high]) ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}
function fromShare(one, share) {
  const [low, high] = ends(one);
  return logarithmic([low, high]) ? low * Math.pow(high / low, share) : low + (high - low) * share;
}
// Five digits, as they fit into a field.
function short(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value), [digits, power] = Number(value).toExponential(4).split("e");
  return size > 0 && (size < 1e-3 || size >= 1e6) ? `${+digits}e${+power}` : String(+Number(value).toPrecision(5));
}

// A number that was typed; null for nothing, undefined for what is none.
function typed(text) {
  const word = text.trim().replace(",", ".");
  if (!word) return null;
  const value = Number(word);
  return Number.isFinite(value) ? value : undefined;
}

export function showSliders() {
  const { model } = store.session, { doc } = store, holder = at("sliders");
  // Of other equations, which are still looked at, nothing is known here.
  if (!model || !model.ok || model.parameters.some((name) => !doc.parameters[name])) return;
  const begins = model.free.filter((state) => doc.initial[state] !== undefined && doc.initial[state].length === 1);
  const key = JSON.stringify([model.parameters, begins]);
  if (key !== drawn) {
    drawn = key;
    const head = ["name", "slider", "value", "from", "to", "fix", "log"].map((w) => h("th", { scope: "col" }, w));
    holder.replaceChildren(h("div", { class: "wide" }, h("table", { class: "sliders" }, h("thead", {}, h("tr", {}, ...head)),
      h("tbody", {}, ...model.parameters.map(line), ...begins.map(beginning)))));
    reachable(holder);
  }
  for (const name of model.parameters) refresh(name, doc.parameters[name]);
  for (const state of begins) refresh(state + "(0)", begun(state));
}

function refresh(name, one) {
  const put = (what, value) => {
    const input = at(`${what}-${name}`);
    if (!input || (document.activeElement === input && input.type === "text")) return;
    if (input.type === "checkbox") input.checked = value; else input.value = value;
  };
  put("slide", Math.round(STEPS * toShare(one)));
  put("value", short(one.value));
  put("low", short(one.low));
  put("high", short(one.high));
  put("fix", one.fixed);
  put("log", one.log);
  const slide = at("slide-" + name);
  if (slide) slide.setAttribute("aria-valuetext", short(one.value));
}

function field(what, name, says, act) {
  return h("td", { "data-says": what === "low" ? "from" : what === "high" ? "to" : "" },
    h("input", { id: `${what}-${name}`, type: "text", inputmode: "decimal", "aria-label": `${says} of ${name}`, oninput: (event) => {
      const value = typed(event.target.value);
      event.target.setAttribute("aria-invalid", String(value === undefined));
      if (value !== undefined) act(value);
    }, onblur: () => showSliders() }));
}

function line(name) {
  const edit = (why, act) => change(`${why} ${name}`, (doc) => act(doc.parameters[name]));
  return h("tr", {}, h("th", { scope: "row" }, name),
    h("td", { class: "slide" }, h("input", { id: "slide-" + name, type: "range", min: 0, max: STEPS, "aria-label": `Slider of ${name}`, oninput: (event) => {
      edit("value", (one) => { one.around ??= one.value; one.value = +fromShare(one, event.target.value / STEPS).toPrecision(5); });
    } })),
    field("value", name, "Value", (value) => { if (value !== null) edit("value", (one) => { one.value = value; one.around = value; }); }),
    field("low", name, "Smallest value", (value) => edit("low", (one) => { one.low = value; })),
    field("high", name, "Largest value", (value) => edit("high", (one) => { one.high = value; })),
    mark("fix", name, "fixed", (on) => edit("fix", (one) => { one.fixed = on; })),
    mark("log", name, "on a log scale", (on) => edit("log", (one) => { one.log = on; })));
}

function mark(what, name, says, act) {
  return h("td", { class: "mark", "data-says": what }, h("input", { id: `${what}-${name}`, type: "checkbox", "aria-label": `${name} ${says}`,
    onchange: (event) => act(event.target.checked) }));
}

// An initial value that is estimated: it moves the picture only.
function beginning(state) {
  const name = state + "(0)", set = (value) => change("begin " + name, (doc) => { doc.initial[state] = [value]; });
  return h("tr", {}, h("th", { scope: "row" }, name),
    h("td", { class: "slide" }, h("input", { id: "slide-" + name, type: "range", min: 0, max: STEPS, "aria-label": `Slider of ${name}`,
      oninput: (event) => set(+fromShare(begun(state), event.target.value / STEPS).toPrecision(5)) })),
    field("value", name, "Value", (value) => { if (value !== null) { anchors[state] = value; set(value); } }),
    h("td", { colspan: 4, class: "hint" }, "in the picture; the fit estimates it"));
}
export function fresh() { drawn = null; anchors = {}; }
