// Where the backend is: this module is served at <base>/assets/kvxray/address.js, whatever path <base> is
// mounted under.

const BASE = new URL("../../", import.meta.url);

/** URL of a REST route; `path` without a leading slash, `query` values are encoded, undefined ones left out. */
export function apiUrl(path, query = {}) {
  const url = new URL(`api/${path}`, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) url.searchParams.set(name, value);
  }
  return url;
}

// What a path cannot carry: parts that browsers and proxies take as directions, line breaks and the like, and ends that
// are routes of their own.
const NOT_IN_A_PATH = /(^|\/)\.{0,2}(\/|$)|\p{Cc}|\/(text|history)$/u;

/** Path and query that name a request to the API, whatever its id; `rest`: what follows the id in the path. */
export function requestRoute(id, rest = "") {
  return NOT_IN_A_PATH.test(id) ? [`requests/-${rest}`, { id }] : [`requests/${encodeURIComponent(id)}${rest}`, {}];
}

/** URL of the live feed of a source (undefined: the backend's first). */
export function liveUrl(source) {
  const url = apiUrl("live", { source });
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url;
}

/** GET a JSON route. Throws an Error whose message is the backend's one sentence, with `.status` (0: no answer). */
export async function getJson(path, query, signal) {
  const response = await answered(fetch(apiUrl(path, query), { signal, headers: { accept: "application/json" } }));
  const body = response.ok ? await response.json().catch(() => null) : null;
  if (body === null) throw await refusal(response);
  return body;
}

const NOT_OURS = "Something else answers in the backend's place; if a proxy wants you to sign in, load the page again.";

/** The answer to what was asked; without any an Error with `.status` 0. */
export function answered(asked) {
  return asked.catch((cause) => {
    if (cause.name === "AbortError") throw cause;
    throw Object.assign(new Error("The backend does not answer."), { status: 0 });
  });
}

/** The Error that an answer of the backend means: its one sentence, with `.status`. What answers 200 and is not the API is
 * not the backend (0).
 */
export async function refusal(response) {
  if (response.ok) return Object.assign(new Error(NOT_OURS), { status: 0 });
  const body = await response.json().catch(() => null);
  const sentence = body?.error ?? `The backend answered ${response.status}.`;
  return Object.assign(new Error(sentence), { status: response.status, field: body?.field });
}

/**
 * Send JSON (POST) or nothing (DELETE) to a route, and what it answers: null where that is nothing. Throws as `getJson`
 * does; `.field`: the field of the body that is to blame, where the backend tells it.
 */
export async function sendJson(method, path, query, body, signal) {
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const response = await answered(fetch(apiUrl(path, query), { method, headers, body: sent, signal }));
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? null : response.json().catch(() => null);
}
