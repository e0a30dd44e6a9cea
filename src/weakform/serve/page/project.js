// A project is one file: what is set, the table, the fits. It is put together here, so that it can be saved even when
// the server is gone; the browser also keeps that of each tab, for when the page is opened again.

import { keep } from "./charts.js";
import { send } from "./api.js";
import { reset, store, tell } from "./store.js";
import { fresh as freshTable } from "./data.js";
import { forget } from "./editor.js";
import { fresh as freshSliders } from "./sliders.js";

const LARGEST = 50e6, MOST = 5;  // bytes of a table that is kept, and tabs

function coded(blob) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });
}

async function project(parts) {
  const { doc, file, fits } = parts;
  return JSON.stringify({ weakform: "project", setup: doc, fits,
    table: file ? { name: file.name, content: await coded(file.blob) } : null });
}

function parts() {
  const { doc, session } = store;
  return { doc: structuredClone(doc), file: session.file,
    fits: session.fits.filter((e) => e.saved).map((e) => ({ name: e.name, setup: e.setup, doc: e.doc, saved: e.saved })) };
}

export async function save() {
  const name = (store.session.file ? store.session.file.name.replace(/\.[^.]*$/, "") : "project") + ".weakform.json";
  keep(new Blob([await project(parts())], { type: "application/json" }), name);
}

export async function open(text) {
  const found = await send("/api/open", text), given = JSON.parse(text);
  const file = given.table ? { name: given.table.name, blob: decoded(given.table.content) } : null;
  store.session = { table: found.table, file, model: null,
    fits: found.fits.map((one, k) => ({ ...one, doc: given.fits[k].doc, saved: given.fits[k].saved })), shown: null };
  if (file) store.session.table.file = file.name;
  store.session.shown = store.session.fits[store.session.fits.length - 1] || null;
  reset(found.setup);
  if (store.doc.sheet && found.table) Object.assign(found.table, await send("/api/sheet", { table: found.table.table, sheet: store.doc.sheet }));
  begin();
}

function decoded(text) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k++) bytes[k] = raw.charCodeAt(k);
  return new Blob([bytes]);
}

// Draw everything anew.
export function begin() {
  freshTable();
  freshSliders();
  forget();
  tell("table");
  tell("doc");
  tell("report");
}

function database() {
  return new Promise((done, failed) => {
    const asked = indexedDB.open("weakform", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("kept");
    asked.onsuccess = () => done(asked.result);
    asked.onerror = () => failed(asked.error);
  });
}
async function within(mode, act) {
  const db = await database();
  return new Promise((done, failed) => {
    const asked = act(db.transaction("kept", mode).objectStore("kept"));
    asked.onsuccess = () => done(asked.result);
    asked.onerror = () => failed(asked.error);
  });
}

const TAB = "weakform tab", known = sessionStorage.getItem(TAB) !== null;
const tab = sessionStorage.getItem(TAB) || `${Date.now()} ${Math.random()}`;
sessionStorage.setItem(TAB, tab);

// When the work was changed last; what is drawn anew, or opened again, is no change.
let changed = { mark: "", when: 0 };
function mark() {
  const { doc, session } = store;
  return JSON.stringify([doc, session.file && session.file.name, session.fits.filter((e) => e.saved).map((e) => e.name)]);
}

let timer = null;
export function autosave() {
  clearTimeout(timer);
  timer = setTimeout(keepNow, 500);
}
export function keepNow() {
  if (timer === null) return;
  clearTimeout(timer);
  timer = null;
  if (mark() !== changed.mark) changed = { mark: mark(), when: Date.now() };
  const now = { ...parts(), when: changed.when };
  if (now.file && now.file.blob.size > LARGEST) now.file = null;
  within("readwrite", (kept) => {
    kept.getAllKeys().onsuccess = (event) => prune(kept, event.target.result);
    return kept.put(now, tab);
  }).catch(() => {});
}
// Tabs that were closed long ago are forgotten.
function prune(kept, keys) {
  for (const old of [...keys.filter((key) => key !== tab).sort().slice(0, 1 - MOST), "last"]) kept.delete(old);
}
export async function forgotten() {
  clearTimeout(timer);
  timer = null;
  await within("readwrite", (kept) => kept.delete(tab)).catch(() => {});
}

// The last work of this tab, if there is any; a new tab goes on with the last of all.
export async function restore() {
  const all = known ? [await within("readonly", (kept) => kept.get(tab)).catch(() => null)]
    : await within("readonly", (kept) => kept.getAll()).catch(() => []);
  const last = all.filter((one) => one).sort((a, b) => (a.when || 0) - (b.when || 0)).pop();
  if (!last || (!last.file && !last.doc.equations)) return false;
  await open(await project(last));
  changed = { mark: mark(), when: last.when || 0 };
  return true;
}
