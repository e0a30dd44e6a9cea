// Projects. A project is one file with settings, table and fits. It is built here, so that it can be saved even if the
// server is down. The browser also stores the project of each tab, and restores it when the page is opened again.

import { download } from "./charts.js";
import { send } from "./api.js";
import { resetDoc, store, notify } from "./store.js";
import { resetTableView } from "./data.js";
import { forgetParsed } from "./editor.js";
import { resetSliders } from "./sliders.js";

const MAX_STORED_TABLE_BYTES = 50e6;  // a larger table is not stored in the browser
const MAX_STORED_TABS = 5;

function encodeBase64(blob) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });
}

async function buildProject(parts) {
  const { doc, file, fits } = parts;
  return JSON.stringify({ weakform: "project", setup: doc, fits,
    table: file ? { name: file.name, content: await encodeBase64(file.blob) } : null });
}

function collectParts() {
  const { doc, session } = store;
  return { doc: structuredClone(doc), file: session.file,
    fits: session.fits.filter((e) => e.saved).map((e) => ({ name: e.name, setup: e.setup, doc: e.doc, saved: e.saved })) };
}

export async function saveProject() {
  const name = (store.session.file ? store.session.file.name.replace(/\.[^.]*$/, "") : "project") + ".weakform.json";
  download(new Blob([await buildProject(collectParts())], { type: "application/json" }), name);
}

export async function openProject(text) {
  const opened = await send("/api/open", text), content = JSON.parse(text);
  const file = content.table ? { name: content.table.name, blob: decodeBase64(content.table.content) } : null;
  store.session = { table: opened.table, file, model: null,
    fits: opened.fits.map((fit, k) => ({ ...fit, doc: content.fits[k].doc, saved: content.fits[k].saved })), shown: null };
  if (file) store.session.table.file = file.name;
  store.session.shown = store.session.fits[store.session.fits.length - 1] || null;
  resetDoc(opened.setup);
  if (store.doc.sheet && opened.table) Object.assign(opened.table, await send("/api/sheet", { table: opened.table.table, sheet: store.doc.sheet }));
  redrawAll();
}

function decodeBase64(text) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k++) bytes[k] = raw.charCodeAt(k);
  return new Blob([bytes]);
}

// Draw the whole page again.
export function redrawAll() {
  resetTableView();
  resetSliders();
  forgetParsed();
  notify("table");
  notify("doc");
  notify("report");
}

function openDatabase() {
  return new Promise((done, failed) => {
    const request = indexedDB.open("weakform", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("kept");
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}
// Run one request in the browser's store, whose name is that of the first versions.
async function withStore(mode, act) {
  const db = await openDatabase();
  return new Promise((done, failed) => {
    const request = act(db.transaction("kept", mode).objectStore("kept"));
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}

// A tab keeps its name over reloads; a new tab gets a new one.
const TAB = "weakform tab", isReload = sessionStorage.getItem(TAB) !== null;
const tab = sessionStorage.getItem(TAB) || `${Date.now()} ${Math.random()}`;
sessionStorage.setItem(TAB, tab);

// When the work was last changed; drawing it again or restoring it is not a change.
let changed = { mark: "", when: 0 };
function computeMark() {
  const { doc, session } = store;
  return JSON.stringify([doc, session.file && session.file.name, session.fits.filter((e) => e.saved).map((e) => e.name)]);
}

let timer = null;
// Store the work in the browser, half a second after the last change.
export function storeLater() {
  clearTimeout(timer);
  timer = setTimeout(storeNow, 500);
}
export function storeNow() {
  if (timer === null) return;
  clearTimeout(timer);
  timer = null;
  if (computeMark() !== changed.mark) changed = { mark: computeMark(), when: Date.now() };
  const work = { ...collectParts(), when: changed.when };
  if (work.file && work.file.blob.size > MAX_STORED_TABLE_BYTES) work.file = null;
  withStore("readwrite", (kept) => {
    kept.getAllKeys().onsuccess = (event) => prune(kept, event.target.result);
    return kept.put(work, tab);
  }).catch(() => {});
}
// Only the latest tabs are kept.
function prune(kept, keys) {
  for (const old of [...keys.filter((key) => key !== tab).sort().slice(0, 1 - MAX_STORED_TABS), "last"]) kept.delete(old);
}
export async function forgetStored() {
  clearTimeout(timer);
  timer = null;
  await withStore("readwrite", (kept) => kept.delete(tab)).catch(() => {});
}

// Restore the stored work of this tab; a new tab continues the work that was changed last in any tab.
// Returns whether there was any.
export async function restoreStored() {
  const all = isReload ? [await withStore("readonly", (kept) => kept.get(tab)).catch(() => null)]
    : await withStore("readonly", (kept) => kept.getAll()).catch(() => []);
  const last = all.filter((work) => work).sort((a, b) => (a.when || 0) - (b.when || 0)).pop();
  if (!last || (!last.file && !last.doc.equations)) return false;
  await openProject(await buildProject(last));
  changed = { mark: computeMark(), when: last.when || 0 };
  return true;
}
