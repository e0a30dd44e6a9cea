// The state of the page: the settings (`doc`, with undo and redo; part of a project file), and everything else (`session`).
// In `doc`, `initial` holds the initial values of each state in the charts, one for each trajectory, and `begin` says
// whether a fit uses the values of the sliders as one start.

const MERGE_MILLISECONDS = 1200;  // changes of the same kind within this time are undone together
const MAX_UNDO_STEPS = 200;
const EMPTY = { equations: "", roles: {}, missing: [], parameters: {}, initial: {}, sheet: null, hold: false,
  begin: false, method: "", seed: 0, starts: null, time_limit: 60 };

export const store = {
  doc: structuredClone(EMPTY),
  // table: its description by the server; file: the file itself; model: the parsed equations; fits: all fits; shown: the
  // fit whose report is shown.
  session: { table: null, file: null, model: null, fits: [], shown: null },
};
const listeners = [], past = [], future = [];
let lastChange = { why: "", time: 0 };

// Listeners get the name of what has changed: "doc", "table", "model", "report", "fit" or "saved".
export function subscribe(act) { listeners.push(act); }
export function notify(what) { for (const act of listeners) act(what); }

// Change the settings. Changes of the same kind (`why`) in quick succession are undone together.
export function changeDoc(why, act) {
  const before = JSON.stringify(store.doc), now = Date.now();
  act(store.doc);
  if (JSON.stringify(store.doc) === before) return;
  if (why !== lastChange.why || now - lastChange.time > MERGE_MILLISECONDS) past.push(before);
  if (past.length > MAX_UNDO_STEPS) past.shift();
  lastChange = { why, time: now };
  future.length = 0;
  notify("doc");
}

// Undo (`back`) or redo one step.
export function stepHistory(back) {
  const [from, to] = back ? [past, future] : [future, past];
  if (!from.length) return;
  to.push(JSON.stringify(store.doc));
  store.doc = JSON.parse(from.pop());
  lastChange = { why: "", time: 0 };
  notify("doc");
}
// How many steps can be undone and redone.
export function historyLength() { return { back: past.length, forward: future.length }; }

// Replace the settings; the history starts anew.
export function resetDoc(doc) {
  store.doc = { ...structuredClone(EMPTY), ...(doc || {}) };
  // Projects before 1.2 have one initial value for all trajectories.
  for (const [state, value] of Object.entries(store.doc.initial)) store.doc.initial[state] = [value].flat();
  past.length = future.length = 0;
}

// The settings as the server expects them.
export function buildSetup() {
  const { doc, session } = store, columns = {}, noise = {}, units = {}, inputs = [];
  let trajectory = null;
  const known = session.model && session.model.ok ? [...session.model.states, ...session.model.observables] : [];
  for (const [column, role] of Object.entries(doc.roles)) {
    if (role.role === "time") { columns.time = column; if (role.unit) units.time = role.unit; }
    if (role.role === "trajectory") trajectory = column;
    const used = () => new RegExp(`(?<![\\p{L}\\p{N}_])${role.name}(?![\\p{L}\\p{N}_])`, "u").test(doc.equations);
    if (role.role === "input" && role.name && used()) { inputs.push(role.name); columns[role.name] = column; }
    if (role.role === "measured" && known.includes(role.name)) {
      columns[role.name] = column;
      if (role.noise) noise[role.name] = role.noise;
      if (role.unit) units[role.name] = role.unit;
    }
  }
  // If the user chose no column as the time, the server must not guess one.
  if (Object.keys(doc.roles).length && !columns.time) columns.time = "";
  for (const name of known) if (!(name in columns) && name in doc.roles) columns[name] = "";
  const parameters = {};
  for (const [name, parameter] of Object.entries(doc.parameters)) {
    if (!session.model || !session.model.ok || !session.model.parameters.includes(name)) continue;
    parameters[name] = parameter.fixed ? { fixed: parameter.value, unit: parameter.unit }
      : { bounds: parameter.low === null && parameter.high === null ? null : [parameter.low, parameter.high], log: parameter.log || null, start: doc.begin ? parameter.value : parameter.start, unit: parameter.unit };
  }
  return { equations: doc.equations, inputs, columns, trajectory, sheet: doc.sheet, hold: doc.hold, noise, units,
    missing: doc.missing, parameters, method: doc.method, seed: doc.seed, starts: doc.starts, time_limit: doc.time_limit,
    file: session.table ? session.table.file : "data.csv" };
}

// The other direction: take over the settings of a model file, for the columns of a table.
export function applyModelFile(doc, file, table) {
  doc.equations = file.equations;
  doc.missing = file.missing || [];
  doc.hold = file.hold || false;
  doc.parameters = {};
  for (const [name, record] of Object.entries(file.parameters || {})) {
    const [low, high] = record.bounds || [null, null];
    const middle = low !== null && high !== null ? (low > 0 && high / low >= 100 ? Math.sqrt(low * high) : (low + high) / 2) : 1;
    doc.parameters[name] = { value: record.fixed ?? record.start ?? middle, low, high, fixed: record.fixed !== null && record.fixed !== undefined,
      log: Boolean(record.log), start: record.start ?? null, unit: record.unit || "" };
  }
  if (!table) return;
  doc.roles = guessRoles(table);
  const of = (column) => doc.roles[column];
  for (const [name, column] of Object.entries(file.columns || {})) {
    if (!of(column)) continue;
    if (name === "time") of(column).role = "time";
    else Object.assign(of(column), { role: (file.inputs || []).includes(name) ? "input" : "measured", name });
  }
  for (const name of file.inputs || []) if (of(name)) Object.assign(of(name), { role: "input", name });
  if (file.trajectory && of(file.trajectory)) of(file.trajectory).role = "trajectory";
  for (const role of Object.values(doc.roles)) {
    if (role.role === "time") role.unit = (file.units || {}).time || role.unit;
    else { role.unit = (file.units || {})[role.name] || role.unit; role.noise = (file.noise || {})[role.name] || ""; }
  }
}

// The roles of the columns of a table, as the server guesses them.
export function guessRoles(table) {
  return Object.fromEntries(table.columns.map((c) => [c.name, { role: c.role, name: toName(c.name), noise: "", unit: c.unit }]));
}
// The name of a column in a form that equations accept: without unit and spaces.
export function toName(column) {
  const word = column.replace(/[([].*$/, "").trim().replace(/[^\p{L}\p{N}_]+/gu, "_").replace(/^_+|_+$/g, "") || "u";
  return /^\p{N}/u.test(word) ? "u" + word : word;
}
