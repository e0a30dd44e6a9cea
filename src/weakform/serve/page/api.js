// Requests to the server; what it refuses is an Error with its words.

const token = new URLSearchParams(location.search).get("token") || "";
const watchers = new Set();

// Called with "there", "gone" (no answer) or "other" (started again: the token is an old one).
export function onServer(watcher) { watchers.add(watcher); }
function say(state) { for (const watcher of watchers) watcher(state); }

export async function send(path, body, method = "POST") {
  const whole = body instanceof Blob || typeof body === "string";
  let answer;
  try {
    answer = await fetch(path, { method, headers: { "X-Token": token },
      body: method === "GET" ? undefined : whole ? body : JSON.stringify(body || {}) });
  } catch {
    say("gone");
    throw new Error("The server does not answer.");
  }
  if (answer.status === 403) { say("other"); throw new Error(await answer.text()); }
  say("there");
  if (answer.headers.get("content-type").startsWith("text/plain")) {
    if (!answer.ok) throw new Error(await answer.text());
    return answer.text();
  }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

// Only the last of several calls counts: the others are not made, or their answers are left out.
export function latest(act, wait) {
  let timer = null, number = 0, busy = false, again = null;
  async function run(words) {
    const mine = ++number;
    busy = true;
    try { await act(() => mine === number, ...words); } finally {
      busy = false;
      if (again) { const next = again; again = null; run(next); }
    }
  }
  return (...words) => {
    clearTimeout(timer);
    timer = setTimeout(() => { if (busy) again = words; else run(words); }, wait);
  };
}
