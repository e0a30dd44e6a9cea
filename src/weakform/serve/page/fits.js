// Fits: progress while one runs, what was found, two side by side, and what can be taken along.

import { keep, chart, drawAll, reachable, shown } from "./charts.js";
import { send } from "./api.js";
import { turned } from "./data.js";
import { anew, at, h } from "./dom.js";
import { change, reset, setup, store, tell } from "./store.js";

let running = null;

export const METHODS = [["", "default"], ["mle", "WENDy-MLE"], ["irls", "WENDy-IRLS"], ["wls", "weak least squares"],
  ["output-error", "output error (solves the equations)"], ["hybrid", "hybrid"], ["relaxed", "relaxed model"]];

export async function fit() {
  if (running) return;
  const { session, doc } = store, made = setup();
  const mine = running = { name: null, seen: [], session };
  at("fit").disabled = true;
  at("progress").replaceChildren(h("p", {}, h("progress", { "aria-label": "The fit is running" }), " ", h("span", {}, "beginning…")), h("div", { class: "falls" }));
  try {
    const { fit: name } = await send("/api/fit", { setup: made, table: session.table.table });
    mine.name = name;
    if (running !== mine) { send(`/api/fit/${name}/stop`).catch(() => {}); return; }
    at("stop").hidden = false;
    const entry = { fit: name, name: `fit ${session.fits.length + 1}`, doc: structuredClone(doc), setup: made, result: null };
    await follow(entry, mine);
  } catch (error) {
    if (running === mine) told(error);
  }
  if (running !== mine) return;
  leave();
  tell("fit");
}

function told(error) { at("progress").replaceChildren(h("p", { class: "wrong" }, error.message)); }

function leave() {
  running = null;
  at("stop").hidden = true;
}

export async function stop() { if (running && running.name) await send(`/api/fit/${running.name}/stop`); }

// Another project is begun: a fit that runs is none of its business.
export function detach() {
  if (!running) return;
  stop().catch(() => {});
  leave();
  at("progress").replaceChildren();
}
export const busy = () => running !== null;

async function follow(entry, mine) {
  for (;;) {
    const now = await send("/api/fit/" + entry.fit, null, "GET");
    if (running !== mine) return;
    if (now.state === "failed") { told({ message: now.error }); return; }
    if (now.result && !entry.result) { store.session.fits.push(entry); store.session.shown = entry; }
    if (now.result && JSON.stringify(now.result.html) !== JSON.stringify(entry.result && entry.result.html)) {
      entry.result = now.result;
      tell("report");
      if (now.state !== "done") at("progress").replaceChildren(h("p", {}, h("progress", { "aria-label": "Profiles are computed" }), " fitted; profiles are computed…"));
    }
    if (now.state === "done") break;
    if (now.progress && !now.result) try { progress(now.progress); } catch { /* a picture of the way is not worth the fit */ }
    await new Promise((done) => setTimeout(done, 150));
  }
  at("progress").replaceChildren();
  if (entry.result.converged && entry.doc.equations === store.doc.equations) estimates(entry);
  // What the project needs when it is saved, also without the server.
  entry.saved = await send("/api/export", { kind: "fit", fit: entry.fit, setup: entry.setup }).then(JSON.parse);
  tell("saved");
}

function progress(now) {
  const bar = at("progress").querySelector("progress"), words = at("progress").querySelector("span"), falls = at("progress").querySelector(".falls");
  if (!words) return;
  words.textContent = now.words;
  if (now.starts > 1) { bar.max = now.starts; bar.value = now.start - 0.5; } else bar.removeAttribute("value");
  const { seen } = running;
  if (now.objective !== null && (!seen.length || now.seconds > seen[seen.length - 1][0])) seen.push([now.seconds, now.objective]);
  if (seen.length < 3) return;
  const spec = { label: "the objective in time", x: "seconds", y: "objective", small: true, tall: 140,
    series: [{ kind: "line", name: "objective", x: seen.map((s) => s[0]), y: seen.map((s) => s[1]), colour: "fit" }] };
  if (running.chart) running.chart.set(spec); else running.chart = chart(falls, spec);
}

// The report comes twice: with the estimates, and again with their profiles.
export const showReport = () => anew([at("fits"), at("take"), at("sections")], writeReport);

function writeReport() {
  const { shown: entry } = store.session;
  at("report").hidden = !entry;
  showFits();
  if (!entry) { at("sections").replaceChildren(); return; }
  at("report-title").textContent = `Report: ${entry.name}`;
  at("sections").innerHTML = entry.result.html;
  drawAll(at("sections"));
  const file = (kind, name, text) => h("button", { type: "button", onclick: () => take(entry, kind, name) }, text);
  at("take").replaceChildren(file("report", "fit.html", "Report (HTML)"), file("estimates", "estimates.csv", "Estimates (CSV)"),
    file("model", "model.toml", "Model file"), file("script", "fit.py", "Python script"), file("command", "fit.sh", "Command line"),
    h("span", { class: "hint" }, "Each picture has buttons for SVG and PNG."));
}

async function take(entry, kind, name) {
  const { table } = store.session;
  try {
    const text = await send("/api/export", { kind, fit: entry.fit, setup: entry.setup, table: table && table.table });
    keep(new Blob([text + (kind === "command" ? "\n" : "")], { type: "text/plain;charset=utf-8" }), name);
  } catch (error) { told(error); }
}

function showFits() {
  const { fits, shown: now } = store.session;
  if (!fits.length) { at("fits").replaceChildren(); return; }
  const rows = fits.map((entry, k) => h("tr", { "aria-current": String(entry === now) },
    h("td", {}, h("input", { type: "checkbox", id: "with-" + k, "aria-label": `Compare ${entry.name}` })),
    h("td", {}, h("input", { type: "text", size: 10, value: entry.name, "aria-label": `Name of fit ${k + 1}`, onchange: (event) => {
      entry.name = event.target.value || entry.name;
      tell("saved");
    } })),
    h("td", { class: entry.result.kind }, entry.result.headline),
    h("td", {}, entry.result.bic === null ? "" : shown(entry.result.bic)),
    h("td", {}, h("div", { class: "row" },
      h("button", { type: "button", onclick: () => { store.session.shown = entry; tell("report"); } }, "show"),
      h("button", { type: "button", onclick: () => back(entry).catch(told) }, "go back to"),
      h("button", { type: "button", onclick: () => estimates(entry) }, "to the sliders")))));
  const head = ["compare", "fit", "verdict", "BIC", "then"].map((w) => h("th", { scope: "col" }, w));
  const both = h("button", { type: "button", onclick: compare }, "Compare the marked ones");
  at("fits").replaceChildren(h("div", { class: "wide" }, h("table", { class: "fits" }, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows))),
    ...(fits.length > 1 ? [h("p", {}, both)] : []));
  reachable(at("fits"));
}

// The settings of an earlier fit, as a step that can be undone.
async function back(entry) {
  const { table } = store.session, { sheet } = entry.doc || store.doc;
  store.session.shown = entry;
  if (table && sheet !== store.doc.sheet) {
    await turned(table, sheet, () => structuredClone(entry.doc));
  } else {
    change("back", (doc) => { Object.assign(doc, structuredClone(entry.doc || doc)); });
  }
  tell("report");
}

function estimates(entry) {
  change("estimates", (doc) => {
    for (const [name, value] of Object.entries(entry.result.estimates)) {
      if (doc.parameters[name] && !doc.parameters[name].fixed) Object.assign(doc.parameters[name], { value: +value.toPrecision(8), around: value });
    }
    for (const [state, values] of Object.entries(entry.result.initial)) if (state in doc.initial) doc.initial[state] = values.map((v) => +v.toPrecision(6));
  });
}

async function compare() {
  const { fits } = store.session, chosen = fits.filter((_, k) => at("with-" + k).checked);
  try {
    const found = await send("/api/compare", { fits: (chosen.length ? chosen : fits.slice(-2)).map((e) => ({ fit: e.fit, name: e.name })) });
    at("report").hidden = false;
    at("report-title").textContent = "Side by side";
    at("take").replaceChildren();
    at("sections").innerHTML = found.html;
    drawAll(at("sections"));
    at("report").scrollIntoView({ block: "start" });
  } catch (error) { told(error); }
}
export { reset };
