// Requests to the server. A refusal becomes an Error with the text of the server.

const token = new URLSearchParams(location.search).get("token") || "";
const watchers = new Set();

// Register a function that is called with "up", "down" (no response) or "restarted" (the token is out of date).
export function onServerState(watcher) { watchers.add(watcher); }
function notifyWatchers(state) { for (const watcher of watchers) watcher(state); }

export async function send(path, body, method = "POST") {
  const isRaw = body instanceof Blob || typeof body === "string";
  let answer;
  try {
    answer = await fetch(path, { method, headers: { "X-Token": token },
      body: method === "GET" ? undefined : isRaw ? body : JSON.stringify(body || {}) });
  } catch {
    notifyWatchers("down");
    throw new Error("The server is not responding.");
  }
  if (answer.status === 403) { notifyWatchers("restarted"); throw new Error(await answer.text()); }
  notifyWatchers("up");
  if (answer.headers.get("content-type").startsWith("text/plain")) {
    if (!answer.ok) throw new Error(await answer.text());
    return answer.text();
  }
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

// Wrap a request so that only the last of several calls counts: earlier ones are skipped, or their answers ignored.
// `act` gets a function that tells whether its call is still the last one, then the arguments.
export function onlyLatest(act, wait) {
  let timer = null, lastCall = 0, isBusy = false, waiting = null;
  async function run(args) {
    const call = ++lastCall;
    isBusy = true;
    try { await act(() => call === lastCall, ...args); } finally {
      isBusy = false;
      if (waiting) { const next = waiting; waiting = null; run(next); }
    }
  }
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => { if (isBusy) waiting = args; else run(args); }, wait);
  };
}
