// A project is one file: what is set, the table, the fits. It is put together here, so that it can be saved even when
// the server is gone; the browser also keeps the last one, for when the page is opened again.

import { keep } from "./charts.js";
import { send } from "./api.js";
import { reset, store, tell } from "./store.js";
import { fresh as freshTable } from "./data.js";
import { forget } from "./editor.js";
import { fresh as freshSliders } from "./sliders.js";

const LARGEST = 50e6;

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

let timer = null;
export function autosave() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const now = parts();
    if (now.file && now.file.blob.size > LARGEST) now.file = null;
    within("readwrite", (kept) => kept.put(now, "last")).catch(() => {});
  }, 500);
}
export async function forgotten() { await within("readwrite", (kept) => kept.delete("last")).catch(() => {}); }

// The last work in this browser, if there is any.
export async function restore() {
  const last = await within("readonly", (kept) => kept.get("last")).catch(() => null);
  if (!last || (!last.file && !last.doc.equations)) return false;
  await open(await project(last));
  return true;
}
