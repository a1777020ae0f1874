// Which charts there are: their words, the series that each draws and how its numbers are written. Colours by name, of
// the palette in theme.py.

import { count, percent, rate, seconds } from "./format.js";
import { amount } from "./units.js";

/** States from the bottom up, as everywhere on the page. */
export const STACK = ["shared", "active", "cached", "free", "empty", "unknown"];

const line = (name, label, colour) => ({ name, label, colour });

// held: the value stays until it changes; else each point is the end of its window. estimated: quantiles out of
// histograms. share: a ratio, on an axis from 0 to 1; least: what the
// axis reaches at least.
export const CHARTS = [
  {
    key: "occupancy",
    title: "Blocks by state",
    meaning: "How many blocks are in each state. The line is the most that were in use in each point's stretch.",
    stacked: true,
    held: true,
    lines: STACK.map((state) => line(state, state, `kx-${state}`)),
    write: (value, state) => (state ? amount(value, state) : count(value)),
  },
  {
    key: "hit_rate",
    title: "Prefix hit rate",
    meaning: "Prompt tokens found in the prefix cache, of those looked up. Where none was looked up there is no line.",
    window: "hit_rate_s",
    share: true,
    lines: [line("hit_rate", "hit rate", "kx-good")],
    write: percent,
  },
  {
    key: "churn",
    title: "Allocations and evictions",
    meaning: "Blocks handed out, and cached blocks given up for new ones, each second.",
    window: "rate_s",
    lines: [
      line("allocations_per_s", "allocated/s", "kx-holder-1"),
      line("evictions_per_s", "evicted/s", "kx-holder-6"),
    ],
    write: rate,
  },
  {
    key: "preemptions",
    title: "Preemptions",
    meaning: "Requests that lost their blocks to others and have to be computed again, each second.",
    window: "rate_s",
    lines: [line("preemptions_per_s", "preempted/s", "kx-critical")],
    write: (value) => (value > 0 && value < 10 ? value.toFixed(2) : rate(value)),
  },
  {
    key: "queue",
    title: "Requests",
    meaning: "Requests being computed, and those that wait for a place in the batch, for the step's tokens or for blocks.",
    held: true,
    lines: [line("running", "running", "kx-holder-1"), line("waiting", "waiting", "kx-holder-2")],
    write: count,
  },
  {
    key: "fragmentation",
    title: "Internal fragmentation",
    meaning: "Slots not written yet, of all slots in blocks that somebody holds.",
    held: true,
    least: 0.1,
    lines: [line("internal_fragmentation", "fragmentation", "kx-holder-5")],
    write: percent,
  },
  {
    key: "ttft",
    title: "Time to first token",
    meaning: "From a request's arrival to its first token: half of them, and 99 of 100, took no longer.",
    window: "latency_s",
    estimated: true,
    lines: [line("ttft_p50_s", "median", "kx-holder-1"), line("ttft_p99_s", "99th percentile", "kx-holder-6")],
    write: seconds,
  },
  {
    key: "itl",
    title: "Inter-token latency",
    meaning: "From one token of a request to its next: half of them, and 99 of 100, took no longer.",
    window: "latency_s",
    estimated: true,
    lines: [line("itl_p50_s", "median", "kx-holder-1"), line("itl_p99_s", "99th percentile", "kx-holder-6")],
    write: seconds,
  },
];
