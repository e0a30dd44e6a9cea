// The table of parameters: sliders that change the solution in the charts, bounds, fixed values and log scales.

import { makeScrollable } from "./charts.js";
import { byId, h } from "./dom.js";
import { changeDoc, store } from "./store.js";

const SLIDER_STEPS = 400;
let drawnKey = null;  // what the table was drawn for
let anchors = {};  // initial values that the ranges of their sliders are built around
const initialParameter = (state) => ({ value: store.doc.initial[state][0], low: null, high: null, around: Math.abs(anchors[state] ??= store.doc.initial[state][0]) });

// The range of a slider: the bounds, or else two decades on both sides of the value.
function sliderRange(parameter) {
  const size = Math.abs(parameter.value) || 1;
  if (parameter.low !== null && parameter.high !== null && parameter.high > parameter.low) return [parameter.low, parameter.high];
  if (parameter.value < 0) return [parameter.low ?? -10 * size, parameter.high ?? 10 * size];
  const unit = Math.pow(10, Math.round(Math.log10(parameter.around > 0 ? parameter.around : size)));
  return [parameter.low ?? unit / 100, parameter.high ?? Math.max(unit * 100, 2 * size)];
}
const isLogarithmic = ([low, high]) => low > 0 && high / low >= 50;
// Position of a value on its slider, from 0 to 1, and back.
function toShare(parameter) {
  const [low, high] = sliderRange(parameter), value = Math.min(Math.max(parameter.value, low), high);
  return isLogarithmic([low, high]) ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}
function fromShare(parameter, share) {
  const [low, high] = sliderRange(parameter);
  return isLogarithmic([low, high]) ? low * Math.pow(high / low, share) : low + (high - low) * share;
}
// A number with five digits, which fits into a field.
function formatShort(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value), [digits, power] = Number(value).toExponential(4).split("e");
  return size > 0 && (size < 1e-3 || size >= 1e6) ? `${+digits}e${+power}` : String(+Number(value).toPrecision(5));
}

// The number that was typed: null for an empty field, undefined for anything that is not a number.
function parseNumber(text) {
  const word = text.trim().replace(",", ".");
  if (!word) return null;
  const value = Number(word);
  return Number.isFinite(value) ? value : undefined;
}

export function showSliders() {
  const { model } = store.session, { doc } = store, holder = byId("sliders");
  // While new equations are being parsed, their parameters are not known yet.
  if (!model || !model.ok || model.parameters.some((name) => !doc.parameters[name])) return;
  const states = model.free.filter((state) => doc.initial[state] !== undefined && doc.initial[state].length === 1);
  const key = JSON.stringify([model.parameters, states]);
  if (key !== drawnKey) {
    drawnKey = key;
    const head = ["name", "slider", "value", "lower", "upper", "fixed", "log"].map((w) => h("th", { scope: "col" }, w));
    holder.replaceChildren(h("div", { class: "wide" }, h("table", { class: "sliders" }, h("thead", {}, h("tr", {}, ...head)),
      h("tbody", {}, ...model.parameters.map(parameterRow), ...states.map(initialValueRow)))));
    makeScrollable(holder);
  }
  for (const name of model.parameters) refresh(name, doc.parameters[name]);
  for (const state of states) refresh(state + "(0)", initialParameter(state));
}

function refresh(name, parameter) {
  const put = (column, value) => {
    const input = byId(`${column}-${name}`);
    if (!input || (document.activeElement === input && input.type === "text")) return;
    if (input.type === "checkbox") input.checked = value; else input.value = value;
  };
  put("slide", Math.round(SLIDER_STEPS * toShare(parameter)));
  put("value", formatShort(parameter.value));
  put("low", formatShort(parameter.low));
  put("high", formatShort(parameter.high));
  put("fix", parameter.fixed);
  put("log", parameter.log);
  const slide = byId("slide-" + name);
  if (slide) slide.setAttribute("aria-valuetext", formatShort(parameter.value));
}

function field(column, name, label, act) {
  return h("td", { "data-label": column === "low" ? "lower" : column === "high" ? "upper" : "" },
    h("input", { id: `${column}-${name}`, type: "text", inputmode: "decimal", "aria-label": `${label} of ${name}`, oninput: (event) => {
      const value = parseNumber(event.target.value);
      event.target.setAttribute("aria-invalid", String(value === undefined));
      if (value !== undefined) act(value);
    }, onblur: () => showSliders() }));
}

function parameterRow(name) {
  const edit = (why, act) => changeDoc(`${why} ${name}`, (doc) => act(doc.parameters[name]));
  return h("tr", {}, h("th", { scope: "row" }, name),
    h("td", { class: "slide" }, h("input", { id: "slide-" + name, type: "range", min: 0, max: SLIDER_STEPS, "aria-label": `Slider of ${name}`, oninput: (event) => {
      edit("value", (parameter) => { parameter.around ??= parameter.value; parameter.value = +fromShare(parameter, event.target.value / SLIDER_STEPS).toPrecision(5); });
    } })),
    field("value", name, "Value", (value) => { if (value !== null) edit("value", (parameter) => { parameter.value = value; parameter.around = value; }); }),
    field("low", name, "Lower bound", (value) => edit("low", (parameter) => { parameter.low = value; })),
    field("high", name, "Upper bound", (value) => edit("high", (parameter) => { parameter.high = value; })),
    checkbox("fix", name, "fixed", (on) => edit("fix", (parameter) => { parameter.fixed = on; })),
    checkbox("log", name, "on a log scale", (on) => edit("log", (parameter) => { parameter.log = on; })));
}

function checkbox(column, name, label, act) {
  return h("td", { class: "checkbox", "data-label": column === "fix" ? "fixed" : column }, h("input", { id: `${column}-${name}`, type: "checkbox", "aria-label": `${name} ${label}`,
    onchange: (event) => act(event.target.checked) }));
}

// An initial value that the fit estimates; its slider changes the charts only.
function initialValueRow(state) {
  const name = state + "(0)", set = (value) => changeDoc("begin " + name, (doc) => { doc.initial[state] = [value]; });
  return h("tr", {}, h("th", { scope: "row" }, name),
    h("td", { class: "slide" }, h("input", { id: "slide-" + name, type: "range", min: 0, max: SLIDER_STEPS, "aria-label": `Slider of ${name}`,
      oninput: (event) => set(+fromShare(initialParameter(state), event.target.value / SLIDER_STEPS).toPrecision(5)) })),
    field("value", name, "Value", (value) => { if (value !== null) { anchors[state] = value; set(value); } }),
    h("td", { colspan: 4, class: "hint" }, "for the charts only; the fit estimates it"));
}
export function resetSliders() { drawnKey = null; anchors = {}; }
