// The page: connects the parts, loads files and examples, and draws the charts beside the sliders.

import { chart, wireTheme } from "./charts.js";
import { onlyLatest, onServerState, send } from "./api.js";
import { byId, h, setOptions } from "./dom.js";
import { applyModelFile, changeDoc, guessRoles, subscribe, resetDoc, buildSetup, stepHistory, historyLength, store, notify } from "./store.js";
import { resetTableView, showTable } from "./data.js";
import { startEditor, parseIfChanged, showEquations, showModel } from "./editor.js";
import { showSliders } from "./sliders.js";
import { isFitting, abandonFit, runFit, METHODS, showReport, stopFit } from "./fits.js";
import { storeLater, redrawAll, forgetStored, storeNow, openProject, restoreStored, saveProject } from "./project.js";

const MAX_LARGE_CHARTS = 6;  // more charts are drawn small
const MAX_SHOWN_DOUBTS = 6;
const MODELS = /\.(toml|xml|sbml|ant)$/i;

function showBanner(...content) {
  byId("banner").hidden = !content.length;
  byId("banner").replaceChildren(...content);
}
function showError(error) { showBanner(error.message, h("button", { type: "button", onclick: () => showBanner() }, "Close")); }

// While the server is down, it is asked again every two seconds.
let retryTimer = null;
onServerState((state) => {
  if (state === "up") { if (byId("banner").dataset.serverDown) { delete byId("banner").dataset.serverDown; showBanner(); } return; }
  byId("banner").dataset.serverDown = "yes";
  showBanner(state === "down"
    ? "The server is not responding. Start weakform serve again. Your work is still on this page, and Save project still works."
    : "The server was restarted. Open the address that it printed. If the port is the same, the browser restores your work there; Save project still works, too.");
  clearTimeout(retryTimer);
  retryTimer = setTimeout(() => send("/api/words").catch(() => {}), 2000);
});

// Files: a table, a model or a project. Of two files the last one wins, however long each of them takes.
let lastLoad = 0;
async function loadFile(file) {
  const load = ++lastLoad;
  try {
    showBanner();
    if (/\.json$/i.test(file.name)) {
      const text = await file.text();
      if (load !== lastLoad) return;
      const before = currentWork();
      abandonFit();
      await openProject(text);
      setAside(before);
      clearCharts();
      redrawAll();
      offerRestore("Your previous work was set aside.");
      return;
    }
    if (MODELS.test(file.name)) {
      const settings = await send("/api/model-file?name=" + encodeURIComponent(file.name), file);
      if (load === lastLoad) changeDoc("model file", (doc) => applyModelFile(doc, settings, store.session.table));
      return;
    }
    showBanner(`Reading ${file.name}…`);
    const table = await send("/api/table?name=" + encodeURIComponent(file.name), file);
    if (load !== lastLoad) return;
    table.file = file.name;
    const { equations, parameters } = store.doc;
    if (store.session.fits.length) startNewWork("The fits of the previous table were set aside."); else { clearCharts(); showBanner(); }
    resetDoc({ equations, parameters });
    useTable(table, { name: file.name, blob: file }, (doc) => { doc.roles = guessRoles(table); doc.missing = []; });
  } catch (error) { if (load === lastLoad) showError(error); }
}
async function loadFiles(files) { for (const file of files) await loadFile(file); }

// When other work is opened, the current work is set aside. The last work set aside can be restored in exchange for the
// current one.
const MAX_SET_ASIDE = 5;
const workSetAside = [];
const currentWork = () => ({ doc: structuredClone(store.doc), session: store.session });
function setAside(work) {
  if (work.session.fits.length || work.doc.equations.trim()) workSetAside.push(work);
  if (workSetAside.length > MAX_SET_ASIDE) workSetAside.shift();
}
function startNewWork(text) {
  abandonFit();
  setAside(currentWork());
  store.session = { table: null, file: null, model: null, fits: [], shown: null };
  clearCharts();
  offerRestore(text);
}
function offerRestore(text) {
  if (!workSetAside.length) { showBanner(); return; }
  showBanner(text, h("button", { type: "button", onclick: () => {
    const old = workSetAside.pop(), remaining = workSetAside.length;
    startNewWork();
    // The work that was open goes to the other end, so that it is the last one to be restored.
    if (workSetAside.length > remaining) workSetAside.unshift(workSetAside.pop());
    store.session = { ...old.session, model: null };
    resetDoc(old.doc);
    redrawAll();
    offerRestore("The work that was open before was set aside.");
  } }, "Restore it"));
}
function clearCharts() {
  drawnCharts.clear();
  solvedKey = checkedKey = null;
  byId("charts").replaceChildren(h("p", { class: "hint" }, "Choose a table or an example to start."));
  for (const id of ["sliders", "doubts", "progress", "math", "known"]) byId(id).replaceChildren();
  byId("trouble").textContent = byId("wrong").textContent = "";
}

// Use a new table; `act` completes the settings.
function useTable(table, file, act) {
  Object.assign(store.session, { table, file, model: null });
  if (!drawnCharts.size) byId("charts").replaceChildren(h("p", { class: "hint" }, "The charts appear once the table and the equations can be read."));
  const doc = { ...store.doc, sheet: null, initial: {} };
  act(doc);
  resetDoc(doc);  // the columns have changed, so that earlier steps cannot be undone
  redrawAll();
}

async function loadExample(name) {
  try {
    const load = ++lastLoad, example = await send("/api/gallery", { name });
    if (load !== lastLoad) return;
    startNewWork("Your previous work was set aside.");
    useTable(example.table, { name: example.file, blob: new Blob([example.text]) }, (doc) => applyModelFile(doc, example.setup, example.table));
  } catch (error) { showError(error); }
}

// The charts beside the sliders.
const drawnCharts = new Map();
const solve = onlyLatest(async (isCurrent, request) => {
  let solution;
  try { solution = await send("/api/solve", request); } catch (error) { if (isCurrent()) byId("trouble").textContent = error.message; return; }
  if (!isCurrent()) return;
  byId("trouble").textContent = [solution.trouble, solution.more].filter(Boolean).join(" ");
  for (const [state, value] of Object.entries(solution.initial)) if (store.doc.initial[state]?.length !== value.length) store.doc.initial[state] = value;
  showSliders();
  drawCharts(solution.charts);
}, 15);

function drawCharts(charts) {
  const many = charts.length > MAX_LARGE_CHARTS, keys = charts.map((c) => c.label + "/" + c.name);
  if (keys.join() !== [...drawnCharts.keys()].join()) { drawnCharts.clear(); byId("charts").replaceChildren(); byId("charts").className = many ? "multiples" : "pairs"; }
  const { units } = buildSetup(), unit = (name) => units[name] ? `${name} (${units[name]})` : name;
  // All holders are added before any chart is drawn, because their widths depend on their number.
  const holders = charts.map((_, k) => {
    if (drawnCharts.has(keys[k])) return null;
    const holder = h("div", { class: "chart" });
    byId("charts").append(h("figure", {}, holder));
    return holder;
  });
  charts.forEach((curve, k) => {
    const series = curve.dots.length ? [{ kind: "points", name: "data", x: curve.dots[0], y: curve.dots[1], colour: "data" }] : [];
    series.push({ kind: "line", name: "model", x: curve.line[0], y: curve.line[1], colour: "fit" });
    const spec = { label: `${curve.name} ${curve.label}: data and model`, x: unit("time"), y: unit(curve.name) + (curve.label ? " of " + curve.label : "")
      + (curve.dots.length ? "" : " (not measured)"), series, small: many, tall: many ? 170 : 210 };
    if (curve.dots.length) {  // the range follows the data, so that a diverging solution does not flatten them
      const measured = curve.dots[1].filter((v) => v !== null), low = Math.min(...measured), high = Math.max(...measured), margin = 0.5 * (high - low) || 1;
      const solution = curve.line[1].filter((v) => v !== null);
      spec.range = [Math.min(low, Math.max(low - margin, Math.min(...solution, low))), Math.max(high, Math.min(high + margin, Math.max(...solution, high)))];
    }
    if (drawnCharts.has(keys[k])) drawnCharts.get(keys[k]).set(spec); else drawnCharts.set(keys[k], chart(holders[k], spec));
  });
}

// Rough estimates of the parameters from the data.
async function guessParameters() {
  byId("guess").disabled = true;
  try {
    const result = await send("/api/guess", { setup: buildSetup(), table: store.session.table.table });
    changeDoc("guess", (doc) => { for (const [name, value] of Object.entries(result.values)) Object.assign(doc.parameters[name], { value, around: value }); });
    byId("trouble").textContent = "";
  } catch (error) { byId("trouble").textContent = error.message; }
  updateButtons();
}

// Solve the model again if anything that matters has changed.
let solvedKey = null;
function solveIfChanged() {
  const { session, doc } = store, { model, table } = session;
  if (!model || !table || (model.ok && model.text !== doc.equations)) return;
  const known = model.ok ? [...model.states, ...model.observables] : [];
  const isUnmatched = !Object.values(doc.roles).some((r) => r.role === "measured" && known.includes(r.name));
  byId("charts").classList.toggle("outdated", isUnmatched && drawnCharts.size > 0);
  if (isUnmatched) {
    byId("trouble").textContent = drawnCharts.size ? "The charts still show the last model that matched the table." : "";
    solvedKey = null;
    return;
  }
  const values = Object.fromEntries(model.parameters.map((n) => [n, doc.parameters[n] ? doc.parameters[n].value : 1]));
  const request = { setup: buildSetup(), table: table.table, values, initial: doc.initial }, key = JSON.stringify(request);
  if (key === solvedKey) return;
  solvedKey = key;
  solve(request);
}

// Errors and doubts before a fit.
let checkedKey = null;
const check = onlyLatest(async (isCurrent, request) => {
  let findings;
  try { findings = await send("/api/check", request); } catch (error) { findings = { wrong: [error.message], doubtful: [] }; }
  if (!isCurrent()) return;
  const list = (texts, kind) => texts.length ? [h("ul", { class: kind }, ...texts.map((w) => h("li", {}, w)))] : [];
  byId("doubts").replaceChildren(...list(findings.wrong, "wrong"), ...list(findings.doubtful.slice(0, MAX_SHOWN_DOUBTS), "hint"));
  store.session.ready = !findings.wrong.length;
  updateButtons();
}, 350);
function checkIfChanged() {
  const { session, doc } = store;
  const isComplete = session.table && session.model && session.model.ok && session.model.text === doc.equations;
  const { model } = session, known = isComplete ? [...model.states, ...model.observables] : [];
  const isUnmatched = isComplete && !Object.values(doc.roles).some((r) => r.role === "measured" && known.includes(r.name));
  if (!isComplete || isUnmatched) {
    session.ready = false;
    checkedKey = null;
    byId("doubts").replaceChildren(...(isUnmatched ? [h("p", { class: "wrong" }, `No column measures ${known.join(" or ")}. Choose its column under Data.`)] : []));
    updateButtons();
    return;
  }
  const request = { setup: buildSetup(), table: session.table.table }, key = JSON.stringify(request);
  if (key === checkedKey) return;
  checkedKey = key;
  check(request);
}
function updateButtons() {
  byId("fit").disabled = !store.session.ready || !byId("stop").hidden;
  byId("guess").disabled = !store.session.ready;
}

subscribe((what) => {
  const { back, forward } = historyLength();
  byId("undo").disabled = !back;
  byId("redo").disabled = !forward;
  if (what === "doc") { showEquations(); parseIfChanged(); showSettings(); }
  if (what === "doc" || what === "model" || what === "table") { showTable(); showModel(); showSliders(); solveIfChanged(); checkIfChanged(); }
  if (what === "report") showReport();
  if (what === "fit") updateButtons();
  storeLater();
});

function showSettings() {
  const { doc } = store;
  setOptions(byId("method"), METHODS, doc.method);
  byId("begin").checked = doc.begin;
  for (const [id, key] of [["starts", "starts"], ["limit", "time_limit"], ["seed", "seed"]]) {
    if (document.activeElement !== byId(id)) byId(id).value = doc[key] ?? "";
  }
}
function wireControls() {
  wireTheme(byId("theme"));
  byId("choose").onclick = byId("open").onclick = () => byId("file").click();
  byId("file").onchange = (event) => { if (event.target.files[0]) loadFile(event.target.files[0]); event.target.value = ""; };
  byId("gallery").onchange = (event) => { if (event.target.value) loadExample(event.target.value); event.target.value = ""; };
  byId("undo").onclick = () => stepHistory(true);
  byId("redo").onclick = () => stepHistory(false);
  byId("save").onclick = () => saveProject().catch(showError);
  byId("anew").onclick = async () => {
    startNewWork("Your previous work was set aside.");
    resetDoc();
    redrawAll();
    await forgetStored();
  };
  byId("guess").onclick = guessParameters;
  byId("fit").onclick = runFit;
  byId("stop").onclick = () => stopFit().catch(showError);
  byId("begin").onchange = (event) => changeDoc("begin", (doc) => { doc.begin = event.target.checked; });
  byId("method").onchange = (event) => changeDoc("method", (doc) => { doc.method = event.target.value; });
  const wireNumber = (id, key, whenEmpty) => { byId(id).oninput = (event) => changeDoc(key, (doc) => {
    doc[key] = event.target.value === "" ? whenEmpty : Number(event.target.value);
  }); };
  wireNumber("starts", "starts", null);
  wireNumber("limit", "time_limit", 60);
  wireNumber("seed", "seed", 0);
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "range" && event.target.type !== "checkbox";
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && !byId("fit").disabled) { event.preventDefault(); runFit(); }
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && (!isTyping || event.target.id === "equations")) { event.preventDefault(); stepHistory(!event.shiftKey); }
  });
  window.addEventListener("beforeunload", (event) => { if (isFitting()) event.preventDefault(); });
  window.addEventListener("pagehide", storeNow);
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      byId("drop").classList.toggle("over", kind === "dragover");
      if (kind === "drop") loadFiles([...event.dataTransfer.files]);
    });
  }
}

async function main() {
  wireControls();
  const { functions, gallery } = await send("/api/words");
  startEditor(functions);
  const kinds = [...new Set(gallery.map((g) => g.kind))];
  byId("gallery").append(...kinds.map((kind) => h("optgroup", { label: kind },
    ...gallery.filter((g) => g.kind === kind).map((g) => h("option", { value: g.name }, g.title)))));
  try {
    if (await restoreStored()) showBanner("Your previous work was restored.", h("button", { type: "button", onclick: () => showBanner() }, "Close"));
  } catch { await forgetStored(); }
  resetTableView();
  notify("doc");
  document.body.dataset.ready = "yes";
}
main().catch(showError);
