// What was typed, as the description of an engine that the API takes, and which name suggests itself: pure.

const PAIR = /^([^=\s]+)=(.*)$/;

/** Labels out of `a=b, c=d`, by comma or line; an Error says which part is none. */
export function labelsOf(text) {
  const parts = text.split(/[,\n]/).map((part) => part.trim());
  return Object.fromEntries(parts.filter(Boolean).map(pairOf));
}

function pairOf(part) {
  const [, name, value] = PAIR.exec(part) ?? [];
  if (!name) throw new Error(`Write labels as name=value, with commas between; “${part}” is none.`);
  return [name, value.trim()];
}

/**
 * The description for the API, and sentences for the fields that stop it: `{spec, problems}`. Fields left empty are left
 * out. `values`: what the fields hold, texts and truth values.
 */
export function specOf(values) {
  const problems = {};
  const read = (field, how) => {
    try {
      return how(values[field]);
    } catch (error) {
      problems[field] = error.message;
      return undefined;
    }
  };
  const byPrometheus = values.metrics_by === "prometheus";
  const spec = {
    name: values.name.trim() || suggestedName(values),
    make: values.make,
    events: text(values.events),
    replay: text(values.replay),
    topic: text(values.topic),
    ranks: read("ranks", whole),
    bind: values.bind || undefined,
    metrics: byPrometheus ? undefined : text(values.metrics),
    prometheus: byPrometheus ? text(values.prometheus) : undefined,
    match: byPrometheus ? read("match", labelsOf) : undefined,
    role: values.role,
    labels: read("labels", labelsOf),
    store_semantics: values.store_semantics,
    num_blocks: read("num_blocks", whole),
  };
  const source = spec.events ?? spec.metrics ?? spec.prometheus;
  if (!source) problems[missingField(values)] = "Say where its events are, or its metrics, or both.";
  return { spec: Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined)), problems };
}

const missingField = ({ make, role, metrics_by: by }) => (make === "router" || role === "decode" ? by : "events");

const text = (typed) => typed.trim() || undefined;

function whole(typed) {
  const wanted = typed.replaceAll(/[\s,_]/g, "");
  if (!wanted) return undefined;
  if (!/^\d{1,10}$/.test(wanted)) throw new Error(`Write a whole number; “${typed.trim()}” is none.`);
  return Number(wanted);
}

/** A name from where the engine is, unlike all of `taken`: of a host with a name that, else make and port. */
export function suggestedName(values, taken = []) {
  const address = [values.events, values.metrics, values.prometheus].find((typed) => typed?.trim()) ?? "";
  const [, host = "", port = ""] = /^\w+:\/\/(\[[^\]]*\]|[^:/]*)(?::(\d+))?/.exec(address.trim()) ?? [];
  const isName = /[a-z]/i.test(host) && !host.startsWith("[") && host !== "localhost";
  const base = isName ? host.split(".")[0] : [values.make, port].filter(Boolean).join("-");
  const name = base.replaceAll(/[^A-Za-z0-9._-]/g, "").replace(/^[._-]+/, "").slice(0, 56) || values.make;
  return free(name, new Set(taken));
}

function free(name, taken) {
  if (!taken.has(name)) return name;
  for (let number = 2; ; number++) if (!taken.has(`${name}-${number}`)) return `${name}-${number}`;
}
