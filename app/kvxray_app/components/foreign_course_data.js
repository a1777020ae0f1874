// What the charts of an engine that is watched from outside are drawn from: what its events told, as the event log counts
// it, and what its metrics told. What was not told is a hole.

import { getJson } from "./address.js";
import { count, percent, rate, seconds } from "./format.js";

const POINTS = 240;
const line = (name, label, colour, part = null) => ({ name, label, colour, part });

/** `from`: "course" tells of blocks that events named, "signals" of metrics. part: of a histogram. */
export const CHARTS = [
  {
    key: "cached",
    title: "Cached blocks",
    meaning: "Copies on the GPU, as the engine's events tell.",
    from: "course",
    lines: [line("cached", "cached", "kx-cached")],
    write: count,
  },
  {
    key: "churn",
    title: "Stored and removed",
    meaning: "Blocks that came into the cache and that left it, each second, as the engine's events tell.",
    from: "course",
    lines: [line("stores_per_s", "stored/s", "kx-holder-1"), line("evictions_per_s", "removed/s", "kx-holder-6")],
    write: rate,
  },
  {
    key: "usage",
    title: "Cache in use",
    meaning: "Blocks that requests hold, of all, as the engine's metrics tell.",
    from: "signals",
    share: true,
    lines: [line("kv_usage", "in use", "kx-active")],
    write: percent,
  },
  {
    key: "hit_rate",
    title: "Prefix hit rate",
    meaning: "Prompt tokens found in the cache, of those looked up. Where none was looked up there is no line.",
    from: "signals",
    share: true,
    lines: [line("hit_rate", "hit rate", "kx-good")],
    write: percent,
  },
  {
    key: "requests",
    title: "Requests",
    meaning: "Requests being computed, and those that wait.",
    from: "signals",
    lines: [line("requests_running", "running", "kx-holder-1"), line("requests_waiting", "waiting", "kx-holder-2")],
    write: (value) => (Number.isInteger(value) ? count(value) : rate(value)),
  },
  {
    key: "preemptions",
    title: "Preemptions",
    meaning: "Requests that lost their blocks to others and have to be computed again, each second.",
    from: "signals",
    lines: [line("preemptions", "preempted/s", "kx-critical")],
    write: rate,
  },
  {
    key: "ttft",
    title: "Time to first token",
    meaning: "Half of the requests, and 99 of 100, took no longer; out of the buckets of a histogram.",
    from: "signals",
    lines: [line("ttft", "median", "kx-holder-1", "p50"), line("ttft", "99th percentile", "kx-holder-6", "p99")],
    write: seconds,
  },
  {
    key: "itl",
    title: "Inter-token latency",
    meaning: "From one token of a request to its next: half of them, and 99 of 100, took no longer.",
    from: "signals",
    lines: [
      line("inter_token_latency", "median", "kx-holder-1", "p50"),
      line("inter_token_latency", "99th percentile", "kx-holder-6", "p99"),
    ],
    write: seconds,
  },
];

const SIGNALS = [
  ...new Set(CHARTS.filter(({ from }) => from === "signals").flatMap(({ lines }) => lines.map(({ name }) => name))),
].join(",");

/** Of the events that are kept: {from, to} in ms since 1970; null where there are none, or it is not known. */
export async function askForWhole({ source, isOfHashes }, signal) {
  if (!isOfHashes) return null;
  const { answer } = await told(getJson("course", { source, points: 1 }, signal));
  return answer ? { from: Date.parse(answer.begin), to: Date.parse(answer.end) } : null;
}

/** When a moment of the past was, in ms since 1970; null where that is not known. */
export async function askForTime({ source }, at, signal) {
  const time = Date.parse(at);
  if (!/^\d+\.\d+$/.test(at)) return Number.isNaN(time) ? null : time;
  const { answer } = await told(getJson("residency", { source, at }, signal));
  return answer?.time ? Date.parse(answer.time) : null;
}

/**
 * Ask for a stretch (ms since 1970): {course, signals: {times (ms), values(line): numbers or null}, or null, and why, where
 * there is none; isAnswered: whether the backend was there}.
 */
export async function askForStretch({ source, engine, isOfHashes }, from, to, signal) {
  const stretch = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  const step = Math.max(1, Math.ceil((to - from) / 1000 / POINTS));
  const [course, signals] = await Promise.all([
    isOfHashes ? told(getJson("course", { source, ...stretch, points: POINTS }, signal)) : { problem: "", status: 0 },
    told(getJson("signals/course", { engine, ...stretch, signals: SIGNALS, step, fit: 1 }, signal)),
  ]);
  return {
    course: course.answer ? ofCourse(course.answer) : null,
    signals: signals.answer ? ofSignals(signals.answer) : null,
    problems: [...new Set([course.problem, signals.problem].filter(Boolean))],
    isAnswered: [course, signals].some(({ status }) => status !== 0),
  };
}

const told = (asked) =>
  asked.then(
    (answer) => ({ answer, problem: "" }),
    (error) => {
      if (error.name === "AbortError") throw error;
      return { answer: null, problem: error.message, status: error.status };
    },
  );

const ofCourse = (answer) => ({
  times: answer.t.map((second) => second * 1000),
  step: answer.seconds * 1000,
  values: ({ name }) => answer.series[name] ?? [],
});

const ofSignals = (answer) => ({
  times: answer.times.map(Date.parse),
  step: answer.step_s * 1000,
  values({ name, part }) {
    const series = answer.series[name];
    return (part ? series?.more[part] : series?.values) ?? [];
  },
});
