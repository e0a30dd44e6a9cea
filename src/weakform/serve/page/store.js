// What is set on the page (`doc`, which can be undone), and what else is there (`session`).
// `initial` has the initial values of each state in the picture, one for each trajectory; with `begin` a fit starts at the sliders.

const EMPTY = { equations: "", roles: {}, missing: [], parameters: {}, initial: {}, sheet: null, hold: false,
  begin: false, method: "", seed: 0, starts: null, time_limit: 60 };

export const store = {
  doc: structuredClone(EMPTY),
  // table: what the server says of it; file: the file itself; model: what the equations say; fits, shown: what was found.
  session: { table: null, file: null, model: null, fits: [], shown: null },
};
const listeners = [], past = [], future = [];
let last = { why: "", time: 0 };

export function listen(act) { listeners.push(act); }
export function tell(what) { for (const act of listeners) act(what); }

// Change the document; several changes of the same kind in one go are one step back.
export function change(why, act) {
  const before = JSON.stringify(store.doc), now = Date.now();
  act(store.doc);
  if (JSON.stringify(store.doc) === before) return;
  if (why !== last.why || now - last.time > 1200) past.push(before);
  if (past.length > 200) past.shift();
  last = { why, time: now };
  future.length = 0;
  tell("doc");
}

export function step(back) {
  const [from, to] = back ? [past, future] : [future, past];
  if (!from.length) return;
  to.push(JSON.stringify(store.doc));
  store.doc = JSON.parse(from.pop());
  last = { why: "", time: 0 };
  tell("doc");
}
export function steps() { return { back: past.length, forward: future.length }; }

export function reset(doc) {
  store.doc = { ...structuredClone(EMPTY), ...(doc || {}) };
  for (const [state, value] of Object.entries(store.doc.initial)) store.doc.initial[state] = [value].flat();  // before 1.2 one for all
  past.length = future.length = 0;
}

// The document as the server takes it.
export function setup() {
  const { doc, session } = store, columns = {}, noise = {}, units = {}, inputs = [];
  let trajectory = null;
  const known = session.model && session.model.ok ? [...session.model.states, ...session.model.observables] : [];
  for (const [column, one] of Object.entries(doc.roles)) {
    if (one.role === "time") { columns.time = column; if (one.unit) units.time = one.unit; }
    if (one.role === "trajectory") trajectory = column;
    const used = () => new RegExp(`(?<![\\p{L}\\p{N}_])${one.name}(?![\\p{L}\\p{N}_])`, "u").test(doc.equations);
    if (one.role === "input" && one.name && used()) { inputs.push(one.name); columns[one.name] = column; }
    if (one.role === "measured" && known.includes(one.name)) {
      columns[one.name] = column;
      if (one.noise) noise[one.name] = one.noise;
      if (one.unit) units[one.name] = one.unit;
    }
  }
  if (Object.keys(doc.roles).length && !columns.time) columns.time = "";  // chosen away: nothing else is taken for it
  for (const name of known) if (!(name in columns) && name in doc.roles) columns[name] = "";
  const parameters = {};
  for (const [name, one] of Object.entries(doc.parameters)) {
    if (!session.model || !session.model.ok || !session.model.parameters.includes(name)) continue;
    parameters[name] = one.fixed ? { fixed: one.value, unit: one.unit }
      : { bounds: one.low === null && one.high === null ? null : [one.low, one.high], log: one.log || null, start: doc.begin ? one.value : one.start, unit: one.unit };
  }
  return { equations: doc.equations, inputs, columns, trajectory, sheet: doc.sheet, hold: doc.hold, noise, units,
    missing: doc.missing, parameters, method: doc.method, seed: doc.seed, starts: doc.starts, time_limit: doc.time_limit,
    file: session.table ? session.table.file : "data.csv" };
}

// The other way round: what a model file says, for the columns of a table.
export function adopt(doc, said, table) {
  doc.equations = said.equations;
  doc.missing = said.missing || [];
  doc.hold = said.hold || false;
  doc.parameters = {};
  for (const [name, one] of Object.entries(said.parameters || {})) {
    const [low, high] = one.bounds || [null, null];
    const middle = low !== null && high !== null ? (low > 0 && high / low >= 100 ? Math.sqrt(low * high) : (low + high) / 2) : 1;
    doc.parameters[name] = { value: one.fixed ?? one.start ?? middle, low, high, fixed: one.fixed !== null && one.fixed !== undefined,
      log: Boolean(one.log), start: one.start ?? null, unit: one.unit || "" };
  }
  if (!table) return;
  doc.roles = guessed(table);
  const of = (column) => doc.roles[column];
  for (const [name, column] of Object.entries(said.columns || {})) {
    if (!of(column)) continue;
    if (name === "time") of(column).role = "time";
    else Object.assign(of(column), { role: (said.inputs || []).includes(name) ? "input" : "measured", name });
  }
  for (const name of said.inputs || []) if (of(name)) Object.assign(of(name), { role: "input", name });
  if (said.trajectory && of(said.trajectory)) of(said.trajectory).role = "trajectory";
  for (const one of Object.values(doc.roles)) {
    if (one.role === "time") one.unit = (said.units || {}).time || one.unit;
    else { one.unit = (said.units || {})[one.name] || one.unit; one.noise = (said.noise || {})[one.name] || ""; }
  }
}

// What the columns of a table are, as the server guesses.
export function guessed(table) {
  return Object.fromEntries(table.columns.map((c) => [c.name, { role: c.role, name: plainName(c.name), noise: "", unit: c.unit }]));
}
// A column's name as equations may have it: without its unit, without spaces.
export function plainName(column) {
  const word = column.replace(/[([].*$/, "").trim().replace(/[^\p{L}\p{N}_]+/gu, "_").replace(/^_+|_+$/g, "") || "u";
  return /^\p{N}/u.test(word) ? "u" + word : word;
}
