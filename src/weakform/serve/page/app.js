// The page: who listens to what.

import { chart, themed } from "./charts.js";
import { latest, onServer, send } from "./api.js";
import { at, h, options } from "./dom.js";
import { adopt, change, guessed, listen, reset, setup, step, steps, store, tell } from "./store.js";
import { fresh as freshTable, showTable } from "./data.js";
import { begin as beginEditor, consider, showEquations, showModel } from "./editor.js";
import { showSliders } from "./sliders.js";
import { busy, detach, fit, METHODS, showReport, stop } from "./fits.js";
import { autosave, begin, forgotten, keepNow, open, restore, save } from "./project.js";

const MODELS = /\.(toml|xml|sbml|ant)$/i;

function banner(...words) {
  at("banner").hidden = !words.length;
  at("banner").replaceChildren(...words);
}
function failed(error) { banner(error.message, h("button", { type: "button", onclick: () => banner() }, "close")); }

onServer((state) => {
  if (state === "there") { if (at("banner").dataset.gone) { delete at("banner").dataset.gone; banner(); } return; }
  at("banner").dataset.gone = "yes";
  banner(state === "gone"
    ? "The server does not answer. Start weakform serve again; your work is kept in this page, and Save project still works."
    : "The server was started again: open the address that it has printed. Your work is kept in this browser, if the port is the same, and Save project still works.");
  clearTimeout(onServer.timer);
  onServer.timer = setTimeout(() => send("/api/words").catch(() => {}), 2000);
});

// Files: a table, a model, a project. Of two the last one wins, however long each takes.
let turn = 0;
async function take(file) {
  const mine = ++turn;
  try {
    banner();
    if (/\.json$/i.test(file.name)) {
      const text = await file.text();
      if (mine !== turn) return;
      const before = present();
      detach();
      await open(text);
      keep(before);
      clear();
      begin();
      offer("Your last work was put away.");
      return;
    }
    if (MODELS.test(file.name)) {
      const said = await send("/api/model-file?name=" + encodeURIComponent(file.name), file);
      if (mine === turn) change("model file", (doc) => adopt(doc, said, store.session.table));
      return;
    }
    banner(`${file.name} is read…`);
    const table = await send("/api/table?name=" + encodeURIComponent(file.name), file);
    if (mine !== turn) return;
    table.file = file.name;
    const { equations, parameters } = store.doc;
    if (store.session.fits.length) putAway("The fits of the table before were put away."); else { clear(); banner(); }
    reset({ equations, parameters });
    settle(table, { name: file.name, blob: file }, (doc) => { doc.roles = guessed(table); doc.missing = []; });
  } catch (error) { if (mine === turn) failed(error); }
}
async function takeAll(files) { for (const file of files) await take(file); }

// Something else begins: what was there is put away, and the last one put away can be brought back, in exchange for what is there.
const away = [];
const present = () => ({ doc: structuredClone(store.doc), session: store.session });
function keep(work) {
  if (work.session.fits.length || work.doc.equations.trim()) away.push(work);
  if (away.length > 5) away.shift();
}
function putAway(words) {
  detach();
  keep(present());
  store.session = { table: null, file: null, model: null, fits: [], shown: null };
  clear();
  offer(words);
}
function offer(words) {
  if (!away.length) { banner(); return; }
  banner(words, h("button", { type: "button", onclick: () => {
    const old = away.pop(), others = away.length;
    putAway();
    if (away.length > others) away.unshift(away.pop());  // what was there goes to the end of the row
    store.session = { ...old.session, model: null };
    reset(old.doc);
    begin();
    offer("What was there before was put away.");
  } }, "bring it back"));
}
function clear() {
  drawn.clear();
  shownFor = checkedFor = null;
  at("charts").replaceChildren(h("p", { class: "hint" }, "Choose a table or an example to begin."));
  for (const id of ["sliders", "doubts", "progress", "math", "known"]) at(id).replaceChildren();
  at("trouble").textContent = at("wrong").textContent = "";
}

function settle(table, file, act) {
  Object.assign(store.session, { table, file, model: null });
  if (!drawn.size) at("charts").replaceChildren(h("p", { class: "hint" }, "The picture comes when the table and the equations can be read."));
  const doc = { ...store.doc, sheet: null, initial: {} };
  act(doc);
  reset(doc);  // another table: there is no way back to the columns of the last one
  begin();
}

async function example(name) {
  try {
    const mine = ++turn, found = await send("/api/gallery", { name });
    if (mine !== turn) return;
    putAway("Your last work was put away.");
    settle(found.table, { name: found.file, blob: new Blob([found.text]) }, (doc) => adopt(doc, found.setup, found.table));
  } catch (error) { failed(error); }
}

// The picture beside the sliders.
const drawn = new Map();
const solve = latest(async (current, asked) => {
  let found;
  try { found = await send("/api/solve", asked); } catch (error) { if (current()) at("trouble").textContent = error.message; return; }
  if (!current()) return;
  at("trouble").textContent = [found.trouble, found.more].filter(Boolean).join(" ");
  for (const [state, value] of Object.entries(found.initial)) if (store.doc.initial[state]?.length !== value.length) store.doc.initial[state] = value;
  showSliders();
  picture(found.charts);
}, 15);

function picture(charts) {
  const many = charts.length > 6, keys = charts.map((c) => c.label + "/" + c.name);
  if (keys.join() !== [...drawn.keys()].join()) { drawn.clear(); at("charts").replaceChildren(); at("charts").className = many ? "multiples" : "pairs"; }
  const { units } = setup(), unit = (name) => units[name] ? `${name} (${units[name]})` : name;
  const holders = charts.map((one, k) => {  // all of them first: their widths depend on how many there are
    if (drawn.has(keys[k])) return null;
    const holder = h("div", { class: "chart" });
    at("charts").append(h("figure", {}, holder));
    return holder;
  });
  charts.forEach((one, k) => {
    const series = one.dots.length ? [{ kind: "points", name: "data", x: one.dots[0], y: one.dots[1], colour: "data" }] : [];
    series.push({ kind: "line", name: "model", x: one.line[0], y: one.line[1], colour: "fit" });
    const spec = { label: `${one.name} ${one.label}: data and model`, x: unit("time"), y: unit(one.name) + (one.label ? " of " + one.label : "")
      + (one.dots.length ? "" : ", not measured"), series, small: many, tall: many ? 170 : 210 };
    if (one.dots.length) {  // the data decide what is seen: a solution that runs away does not squeeze them
      const there = one.dots[1].filter((v) => v !== null), low = Math.min(...there), high = Math.max(...there), more = 0.5 * (high - low) || 1;
      const curve = one.line[1].filter((v) => v !== null);
      spec.range = [Math.min(low, Math.max(low - more, Math.min(...curve, low))), Math.max(high, Math.min(high + more, Math.max(...curve, high)))];
    }
    if (drawn.has(keys[k])) drawn.get(keys[k]).set(spec); else drawn.set(keys[k], chart(holders[k], spec));
  });
}

// Rough values of the parameters, from the data.
async function guess() {
  at("guess").disabled = true;
  try {
    const found = await send("/api/guess", { setup: setup(), table: store.session.table.table });
    change("guess", (doc) => { for (const [name, value] of Object.entries(found.values)) Object.assign(doc.parameters[name], { value, around: value }); });
    at("trouble").textContent = "";
  } catch (error) { at("trouble").textContent = error.message; }
  ready();
}

let shownFor = null;
function move() {
  const { session, doc } = store, { model, table } = session;
  if (!model || !table || (model.ok && model.text !== doc.equations)) return;
  const known = model.ok ? [...model.states, ...model.observables] : [];
  const none = !Object.values(doc.roles).some((r) => r.role === "measured" && known.includes(r.name));
  at("charts").classList.toggle("old", none && drawn.size > 0);
  if (none) {
    at("trouble").textContent = drawn.size ? "The picture is that of the last equations and table that went together." : "";
    shownFor = null;
    return;
  }
  const values = Object.fromEntries(model.parameters.map((n) => [n, doc.parameters[n] ? doc.parameters[n].value : 1]));
  const asked = { setup: setup(), table: table.table, values, initial: doc.initial }, key = JSON.stringify(asked);
  if (key === shownFor) return;
  shownFor = key;
  solve(asked);
}

// What is wrong or doubtful before a fit.
let checkedFor = null;
const check = latest(async (current, asked) => {
  let found;
  try { found = await send("/api/check", asked); } catch (error) { found = { wrong: [error.message], doubtful: [] }; }
  if (!current()) return;
  const list = (words, kind) => words.length ? [h("ul", { class: kind }, ...words.map((w) => h("li", {}, w)))] : [];
  at("doubts").replaceChildren(...list(found.wrong, "wrong"), ...list(found.doubtful.slice(0, 6), "hint"));
  store.session.ready = !found.wrong.length;
  ready();
}, 350);
function consult() {
  const { session, doc } = store;
  const there = session.table && session.model && session.model.ok && session.model.text === doc.equations;
  const { model } = session, known = there ? [...model.states, ...model.observables] : [];
  const lost = there && !Object.values(doc.roles).some((r) => r.role === "measured" && known.includes(r.name));
  if (!there || lost) {
    session.ready = false;
    checkedFor = null;
    at("doubts").replaceChildren(...(lost ? [h("p", { class: "wrong" }, `Say under Data which column measures ${known.join(" or ")}.`)] : []));
    ready();
    return;
  }
  const asked = { setup: setup(), table: session.table.table }, key = JSON.stringify(asked);
  if (key === checkedFor) return;
  checkedFor = key;
  check(asked);
}
function ready() {
  at("fit").disabled = !store.session.ready || !at("stop").hidden;
  at("guess").disabled = !store.session.ready;
}

listen((what) => {
  const { back, forward } = steps();
  at("undo").disabled = !back;
  at("redo").disabled = !forward;
  if (what === "doc") { showEquations(); consider(); settings(); }
  if (what === "doc" || what === "model" || what === "table") { showTable(); showModel(); showSliders(); move(); consult(); }
  if (what === "report") showReport();
  if (what === "fit") ready();
  autosave();
});

function settings() {
  const { doc } = store;
  options(at("method"), METHODS, doc.method);
  at("begin").checked = doc.begin;
  for (const [id, key] of [["starts", "starts"], ["limit", "time_limit"], ["seed", "seed"]]) {
    if (document.activeElement !== at(id)) at(id).value = doc[key] ?? "";
  }
}
function wire() {
  themed(at("theme"));
  at("choose").onclick = at("open").onclick = () => at("file").click();
  at("file").onchange = (event) => { if (event.target.files[0]) take(event.target.files[0]); event.target.value = ""; };
  at("gallery").onchange = (event) => { if (event.target.value) example(event.target.value); event.target.value = ""; };
  at("undo").onclick = () => step(true);
  at("redo").onclick = () => step(false);
  at("save").onclick = () => save().catch(failed);
  at("anew").onclick = async () => {
    putAway("Your last work was put away.");
    reset();
    begin();
    await forgotten();
  };
  at("guess").onclick = guess;
  at("fit").onclick = fit;
  at("stop").onclick = () => stop().catch(failed);
  at("begin").onchange = (event) => change("begin", (doc) => { doc.begin = event.target.checked; });
  at("method").onchange = (event) => change("method", (doc) => { doc.method = event.target.value; });
  const number = (id, key, none) => { at(id).oninput = (event) => change(key, (doc) => {
    doc[key] = event.target.value === "" ? none : Number(event.target.value);
  }); };
  number("starts", "starts", null);
  number("limit", "time_limit", 60);
  number("seed", "seed", 0);
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "range" && event.target.type !== "checkbox";
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && !at("fit").disabled) { event.preventDefault(); fit(); }
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && (!typing || event.target.id === "equations")) { event.preventDefault(); step(!event.shiftKey); }
  });
  window.addEventListener("beforeunload", (event) => { if (busy()) event.preventDefault(); });
  window.addEventListener("pagehide", keepNow);
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      at("drop").classList.toggle("over", kind === "dragover");
      if (kind === "drop") takeAll([...event.dataTransfer.files]);
    });
  }
}

async function main() {
  wire();
  const { functions, gallery } = await send("/api/words");
  beginEditor(functions);
  const kinds = [...new Set(gallery.map((g) => g.kind))];
  at("gallery").append(...kinds.map((kind) => h("optgroup", { label: kind },
    ...gallery.filter((g) => g.kind === kind).map((g) => h("option", { value: g.name }, g.title)))));
  try {
    if (await restore()) banner("Your last work was opened again.", h("button", { type: "button", onclick: () => banner() }, "close"));
  } catch { await forgotten(); }
  freshTable();
  tell("doc");
  document.body.dataset.ready = "yes";
}
main().catch(failed);
