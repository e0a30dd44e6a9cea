// Fits: progress, the list of fits, the report, comparisons and downloads.

import { download, chart, drawAll, makeScrollable, formatNumber } from "./charts.js";
import { send } from "./api.js";
import { switchSheet } from "./data.js";
import { keepFocus, byId, h } from "./dom.js";
import { changeDoc, buildSetup, store, notify } from "./store.js";

const POLL_MILLISECONDS = 150;  // between two requests for the progress
let running = null;  // the fit that is being computed

export const METHODS = [["", "Default"], ["mle", "WENDy-MLE"], ["irls", "WENDy-IRLS"], ["wls", "Weak least squares"],
  ["output-error", "Output error (solves the equations)"], ["hybrid", "Hybrid"], ["relaxed", "Relaxed model"]];

export async function runFit() {
  if (running) return;
  const { session, doc } = store, settings = buildSetup();
  const mine = running = { name: null, objectives: [], session };
  byId("fit").disabled = true;
  byId("progress").replaceChildren(h("p", {}, h("progress", { "aria-label": "The fit is running" }), " ", h("span", {}, "Starting…")), h("div", { class: "objective" }));
  try {
    const { fit: name } = await send("/api/fit", { setup: settings, table: session.table.table });
    mine.name = name;
    if (running !== mine) { send(`/api/fit/${name}/stop`).catch(() => {}); return; }
    byId("stop").hidden = false;
    const entry = { fit: name, name: `fit ${session.fits.length + 1}`, doc: structuredClone(doc), setup: settings, result: null };
    await follow(entry, mine);
  } catch (error) {
    if (running === mine) showError(error);
  }
  if (running !== mine) return;
  finish();
  notify("fit");
}

function showError(error) { byId("progress").replaceChildren(h("p", { class: "wrong" }, error.message)); }

function finish() {
  running = null;
  byId("stop").hidden = true;
}

export async function stopFit() { if (running && running.name) await send(`/api/fit/${running.name}/stop`); }

// Stop a running fit and ignore its result, because other work is opened.
export function abandonFit() {
  if (!running) return;
  stopFit().catch(() => {});
  finish();
  byId("progress").replaceChildren();
}
export const isFitting = () => running !== null;

// Ask for the progress of a fit until it has ended; `mine` is compared with `running`, which changes if other work is opened.
async function follow(entry, mine) {
  for (;;) {
    const report = await send("/api/fit/" + entry.fit, null, "GET");
    if (running !== mine) return;
    if (report.state === "failed") { showError({ message: report.error }); return; }
    if (report.result && !entry.result) { store.session.fits.push(entry); store.session.shown = entry; }
    if (report.result && JSON.stringify(report.result.html) !== JSON.stringify(entry.result && entry.result.html)) {
      entry.result = report.result;
      notify("report");
      if (report.state !== "done") byId("progress").replaceChildren(h("p", {}, h("progress", { "aria-label": "Computing profiles" }), " Fitted; computing profiles…"));
    }
    if (report.state === "done") break;
    if (report.progress && !report.result) try { showProgress(report.progress); } catch { /* an error in the display of the progress must not lose the fit */ }
    await new Promise((done) => setTimeout(done, POLL_MILLISECONDS));
  }
  byId("progress").replaceChildren();
  if (entry.result.converged && entry.doc.equations === store.doc.equations) copyEstimates(entry);
  // The saved fit is fetched now, so that a project can be saved later even without the server.
  entry.saved = await send("/api/export", { kind: "fit", fit: entry.fit, setup: entry.setup }).then(JSON.parse);
  notify("saved");
}

function showProgress(progress) {
  const bar = byId("progress").querySelector("progress"), label = byId("progress").querySelector("span"), holder = byId("progress").querySelector(".objective");
  if (!label) return;
  label.textContent = progress.words;
  if (progress.starts > 1) { bar.max = progress.starts; bar.value = progress.start - 0.5; } else bar.removeAttribute("value");
  const { objectives } = running;
  if (progress.objective !== null && (!objectives.length || progress.seconds > objectives[objectives.length - 1][0])) objectives.push([progress.seconds, progress.objective]);
  if (objectives.length < 3) return;
  const spec = { label: "Objective over time", x: "time (s)", y: "objective", small: true, tall: 140,
    series: [{ kind: "line", name: "objective", x: objectives.map((s) => s[0]), y: objectives.map((s) => s[1]), colour: "fit" }] };
  if (running.chart) running.chart.set(spec); else running.chart = chart(holder, spec);
}

// The report is written twice: after the fit, and again with profiles. The keyboard focus must not be lost.
export const showReport = () => keepFocus([byId("fits"), byId("take"), byId("sections")], writeReport);

function writeReport() {
  const { shown: entry } = store.session;
  byId("report").hidden = !entry;
  showFits();
  if (!entry) { byId("sections").replaceChildren(); return; }
  byId("report-title").textContent = `Report: ${entry.name}`;
  byId("sections").innerHTML = entry.result.html;
  drawAll(byId("sections"));
  const file = (kind, name, text) => h("button", { type: "button", onclick: () => exportFile(entry, kind, name) }, text);
  byId("take").replaceChildren(file("report", "fit.html", "Report (HTML)"), file("estimates", "estimates.csv", "Estimates (CSV)"),
    file("model", "model.toml", "Model file"), file("script", "fit.py", "Python script"), file("command", "fit.sh", "Command line"),
    h("span", { class: "hint" }, "Each chart can be saved as SVG or PNG."));
}

async function exportFile(entry, kind, name) {
  const { table } = store.session;
  try {
    const text = await send("/api/export", { kind, fit: entry.fit, setup: entry.setup, table: table && table.table });
    download(new Blob([text + (kind === "command" ? "\n" : "")], { type: "text/plain;charset=utf-8" }), name);
  } catch (error) { showError(error); }
}

function showFits() {
  const { fits, shown } = store.session;
  if (!fits.length) { byId("fits").replaceChildren(); return; }
  const rows = fits.map((entry, k) => h("tr", { "aria-current": String(entry === shown) },
    h("td", {}, h("input", { type: "checkbox", id: "with-" + k, "aria-label": `Compare ${entry.name}` })),
    h("td", {}, h("input", { type: "text", size: 10, value: entry.name, "aria-label": `Name of fit ${k + 1}`, onchange: (event) => {
      entry.name = event.target.value || entry.name;
      notify("saved");
    } })),
    h("td", { class: entry.result.kind }, entry.result.headline),
    h("td", {}, entry.result.bic === null ? "" : formatNumber(entry.result.bic)),
    h("td", {}, h("div", { class: "row" },
      h("button", { type: "button", onclick: () => { store.session.shown = entry; notify("report"); } }, "Show"),
      h("button", { type: "button", onclick: () => restoreSettings(entry).catch(showError) }, "Restore settings"),
      h("button", { type: "button", onclick: () => copyEstimates(entry) }, "Copy to sliders")))));
  const head = ["compare", "fit", "verdict", "BIC", "actions"].map((w) => h("th", { scope: "col" }, w));
  const compareButton = h("button", { type: "button", onclick: compare }, "Compare selected fits");
  byId("fits").replaceChildren(h("div", { class: "wide" }, h("table", { class: "fits" }, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows))),
    ...(fits.length > 1 ? [h("p", {}, compareButton)] : []));
  makeScrollable(byId("fits"));
}

// Restore the settings of an earlier fit; unless it used another sheet, this can be undone.
async function restoreSettings(entry) {
  const { table } = store.session, { sheet } = entry.doc || store.doc;
  store.session.shown = entry;
  if (table && sheet !== store.doc.sheet) {
    await switchSheet(table, sheet, () => structuredClone(entry.doc));
  } else {
    changeDoc("back", (doc) => { Object.assign(doc, structuredClone(entry.doc || doc)); });
  }
  notify("report");
}

function copyEstimates(entry) {
  changeDoc("estimates", (doc) => {
    for (const [name, value] of Object.entries(entry.result.estimates)) {
      if (doc.parameters[name] && !doc.parameters[name].fixed) Object.assign(doc.parameters[name], { value: +value.toPrecision(8), around: value });
    }
    for (const [state, values] of Object.entries(entry.result.initial)) if (state in doc.initial) doc.initial[state] = values.map((v) => +v.toPrecision(6));
  });
}

async function compare() {
  const { fits } = store.session, chosen = fits.filter((_, k) => byId("with-" + k).checked);
  try {
    const comparison = await send("/api/compare", { fits: (chosen.length ? chosen : fits.slice(-2)).map((e) => ({ fit: e.fit, name: e.name })) });
    byId("report").hidden = false;
    byId("report-title").textContent = "Comparison";
    byId("take").replaceChildren();
    byId("sections").innerHTML = comparison.html;
    drawAll(byId("sections"));
    byId("report").scrollIntoView({ block: "start" });
  } catch (error) { showError(error); }
}
