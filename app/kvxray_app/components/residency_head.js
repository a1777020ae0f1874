// How much to trust the page of an engine that is watched from outside: heard or not and since when, where in its events
// we are, what was lost, whether its metrics are read; and what is found to be wrong, as sentences.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { NO_DATA, age, count, plural, timeOfDay, zoneName, zoneOffset } from "./format.js";
import { whenWords } from "./moment_words.js";

const OF_EVENTS = ["epoch", "event", "gaps", "late", "bad"];
const OF_THE_PRESENT = ["gaps", "late", "bad", "metrics"]; // nothing stored tells them
const PIECES = ["epoch", "event", "gaps", "late", "bad", "metrics", "times"];
const RANK = { critical: 0, warning: 1, info: 2 };
const SHOWN = 2;

export class ResidencyHead {
  /** `go(at)`: to a moment. */
  constructor(words, health, tip, go) {
    Object.assign(this, { words, health, tip, go, all: false });
    this.dot = el("span", { class: "dot" });
    this.phase = el("b");
    this.about = el("span", { class: "muted" });
    this.pieces = {};
    this.line = el(
      "div",
      { class: "line", role: "status", "aria-label": "Health of the stream" },
      el("span", { class: "phase" }, this.dot, this.phase),
      this.about,
      el("span", { class: "pieces" }, ...PIECES.map((name) => this.#piece(name))),
    );
    this.list = el("ul");
    this.more = el("button", { class: "link more", onclick: () => this.#toggle() });
    this.findings = el("div", { class: "findings", role: "region", "aria-label": "Open findings" }, this.list, this.more);
    this.trouble = el("div", { class: "trouble", role: "status", hidden: true });
    this.node = el("div", { class: "head" }, this.line, this.trouble, this.findings);
  }

  draw(feed) {
    const { summary, failed, failedSince } = feed;
    const why = failed ? "" : (summary?.trouble ?? "");
    setAttribute(this.trouble, "hidden", !failed && !why);
    const shown = summary ? ` What is shown is of ${timeOfDay(new Date(failedSince).toISOString())}.` : "";
    setText(this.trouble, failed ? `${failed}${shown} Trying again.` : why);
    this.#drawLine(summary, failed, feed.isPast);
    this.#drawFindings(summary);
  }

  #drawLine(summary, failed, isPast) {
    const state = failed ? "lost" : isPast ? "past" : (summary?.state ?? "connecting");
    setAttribute(this.dot, "data-phase", { connected: "live", no_stream: "live", waiting: "connecting", joining: "connecting" }[state] ?? state);
    setText(this.phase, stateWords(state, summary, this.words.states));
    const since = summary?.since && state === "connected" ? `heard since ${whenWords(summary.since, false)}` : "";
    const make = this.words.makes[summary?.make] ?? summary?.make;
    setText(this.about, [summary?.source, make, summary?.descriptor?.model, since].filter(Boolean).join("  ·  "));
    this.#show("epoch", summary?.epoch == null ? NO_DATA : count(summary.epoch));
    this.#show("event", summary?.seq ?? NO_DATA);
    this.#show("gaps", count(summary?.gaps), summary?.gaps > 0);
    this.#show("late", count(summary?.late), summary?.late > 0);
    this.#show("bad", count(summary?.bad_messages), summary?.bad_messages > 0);
    this.metrics = summary?.metrics ?? null;
    this.#show("metrics", METRICS[this.metrics?.state] ?? NO_DATA, this.metrics?.state === "failing");
    this.#show("times", zoneOffset());
    for (const name of OF_EVENTS) setAttribute(this.pieces[name].node, "hidden", summary?.kind === "metrics");
    if (isPast) for (const name of OF_THE_PRESENT) setAttribute(this.pieces[name].node, "hidden", true);
    else setAttribute(this.pieces.metrics.node, "hidden", false);
  }

  #drawFindings(summary) {
    const told = [...(summary?.findings ?? [])].sort((a, b) => RANK[a.severity] - RANK[b.severity] || (a.time < b.time ? 1 : -1));
    const all = Math.max(summary?.num_findings ?? 0, told.length);
    setAttribute(this.findings, "hidden", !told.length);
    reconcile(
      this.list,
      this.all ? told : told.slice(0, SHOWN),
      ({ id }) => id,
      (finding) =>
        el(
          "li",
          { id: `finding-${finding.id}`, tabindex: "-1" },
          el("span", { class: "sign", role: "img" }),
          el("span", { class: "sentence" }),
          el("button", { class: "link faint", onclick: () => this.go(pointOf(finding)) }),
        ),
      patchFinding,
    );
    setAttribute(this.more, "hidden", all <= SHOWN);
    const untold = this.all && all > told.length ? ` (${count(all - told.length)} more are not listed here)` : "";
    setText(this.more, this.all ? `Show fewer${untold}` : `Show ${plural(all - SHOWN, "more finding")}`);
  }

  /** Bring a finding into sight. */
  show(id, draw) {
    this.all = true;
    draw();
    const node = this.list.querySelector(`[id="finding-${CSS.escape(id)}"]`);
    node?.scrollIntoView({ block: "center" });
    node?.focus({ preventScroll: true });
  }

  #toggle() {
    this.all = !this.all;
    this.onToggle?.();
  }

  #piece(name) {
    const value = el("b");
    const label = { bad: "bad messages" }[name] ?? name;
    const node = el("span", { class: "piece", tabindex: "0" }, `${label} `, value);
    this.pieces[name] = { node, value };
    this.tip.describe(node, () => this.#explain(name));
    return node;
  }

  #explain(name) {
    if (name === "times") return [this.health.times, zoneName()];
    if (name !== "metrics") return [this.words.health[name] ?? this.health[name]];
    const { sentence, last } = this.metrics ?? {};
    return ["Metrics", sentence || "It is not told whether the engine's metrics are read.", last ? `Last read at ${whenWords(last, false)}.` : ""];
  }

  #show(name, text, isAlarming = false) {
    setText(this.pieces[name].value, text);
    setAttribute(this.pieces[name].node, "data-alarm", isAlarming);
  }
}

const METRICS = { none: "not read", reading: "read", failing: "failing" };

function stateWords(state, summary, states) {
  if (state === "lost") return summary ? "Out of date" : "No answer";
  if (state === "connecting") return "Connecting";
  if (state !== "stale" || !summary.since) return states[state] ?? state;
  return `Stale since ${whenWords(summary.since, false)}, ${age((Date.now() - Date.parse(summary.since)) / 1000)} ago`;
}

function patchFinding(node, finding) {
  const [sign, sentence, time] = node.children;
  setAttribute(node, "data-severity", finding.severity);
  setAttribute(sign, "aria-label", finding.severity);
  setText(sentence, finding.sentence);
  setText(time, `since ${whenWords(finding.time, false)}`);
  setAttribute(time, "title", `Show the moment after event ${pointOf(finding)}`);
}

const pointOf = ({ epoch, seq1 }) => `${epoch}.${seq1}`;
