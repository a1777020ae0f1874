// One line that says how much to trust the page: connected or not and since when, what is watched, where in its
// events we are, and what was lost on the way.

import { capacityLines, dtypeName } from "./capacity.js";
import { el, setAttribute, setText } from "./elements.js";
import { NO_DATA, age, count, eventNumber, seconds, timeOfDay, zoneName, zoneOffset } from "./format.js";
import { momentWords, whenWords } from "./moment_words.js";
import { LiveView, defineLiveComponent } from "./live_view.js";
import { UNITS, currentUnit, onUnit, setUnit } from "./units.js";

const PHASES = {
  live: () => "Live",
  stale: (source) => `Stale since ${whenWords(source?.since, false)}`,
  past: () => "Past",
  lost: (_, status) => `Connection lost at ${timeOfDay(status.since)}`,
  connecting: (source) =>
    source?.state === "joining" ? "Joining" : source?.state === "waiting" ? "Waiting" : "Connecting",
};

const PIECES = ["epoch", "event", "lag", "gaps", "drops", "bad", "times"];
const OF_THE_PRESENT = ["lag", "bad"]; // nothing stored tells them

class HealthLine extends LiveView {
  constructor(context) {
    super(context);
    this.dot = el("span", { class: "dot" });
    this.phase = el("b");
    this.when = el("span", { class: "when mono", hidden: true });
    this.detail = el("span", { class: "muted", tabindex: "0" });
    this.edge = el("div", { class: "past-frame", hidden: true, "aria-hidden": "true" });
    this.tip.describe(this.detail, () => this.#capacity());
    this.pieces = {};
    this.line = el(
      "div",
      { class: "line", role: "status", "aria-label": "Health of the stream" },
      el("span", { class: "phase" }, this.dot, this.phase, this.when),
      this.detail,
      el("span", { class: "pieces" }, ...PIECES.map((key) => this.#piece(key))),
      this.#units(),
    );
    this.root.append(this.line, this.edge);
    this.listen(
      this.feed.subscribe("summary", () => this.requestDraw()),
      this.feed.subscribe("status", () => this.requestDraw()),
      onUnit(() => this.requestDraw()),
    );
  }

  draw() {
    const { status, summary } = this.feed;
    const source = summary?.source;
    setAttribute(this.dot, "data-phase", status.phase);
    setText(this.phase, PHASES[status.phase](source, status));
    setText(this.detail, this.#facts(source, status));
    setAttribute(this.line, "data-past", status.phase === "past");
    for (const node of [this.when, this.edge]) setAttribute(node, "hidden", status.phase !== "past");
    setText(this.when, momentWords(this.feed));
    this.#show("epoch", source?.epoch == null ? NO_DATA : count(source.epoch));
    this.#show("event", this.#newest(source));
    this.#show("lag", status.phase === "live" ? seconds(source?.lag_s?.value) : NO_DATA);
    this.#show("gaps", count(source?.gaps), source?.gaps > 0);
    this.#show("drops", count(source?.drops), source?.drops > 0);
    this.#show("bad", count(source?.bad_messages), source?.bad_messages > 0);
    this.#show("times", zoneOffset());
    for (const key of OF_THE_PRESENT) setAttribute(this.pieces[key].node, "hidden", this.feed.isPast);
    for (const button of this.switch.children)
      setAttribute(button, "aria-pressed", String(button.dataset.unit === currentUnit()));
  }

  // The table moves with every delta, summaries twice a second: the newer of the two.
  #newest(source) {
    const { table } = this.feed;
    if (!table || table.epoch !== source?.epoch) return source?.last_seq ?? NO_DATA;
    return table.seq < 0 ? "none yet" : eventNumber(table.epoch, table.seq);
  }

  #facts(source, status) {
    if (status.phase === "lost") return `${status.reason} Trying again.`;
    if (status.phase === "past" && status.reason) return status.reason;
    const about = source?.descriptor;
    if (!about) return source ? source.source : "";
    const usable = about.num_blocks - (about.null_block >= 0 ? 1 : 0);
    const pool = `${count(usable)} blocks of ${about.block_size} tokens`;
    const words = [source.source, about.model, pool, dtypeName(about)].filter(Boolean).join("  ·  ");
    return status.phase === "stale"
      ? `Last heard ${age((Date.now() - Date.parse(source.since)) / 1000)} ago  ·  ${words}`
      : words;
  }

  #capacity() {
    const lines = capacityLines(this.feed.summary?.source?.descriptor);
    return lines.length ? ["The cache", ...lines] : [];
  }

  #piece(key) {
    const value = el("b");
    const node = el(
      "span",
      { class: "piece", tabindex: "0" },
      `${{ bad: "bad messages" }[key] ?? key} `,
      value,
    );
    this.pieces[key] = { node, value };
    this.tip.describe(node, () => [this.data.words.health[key], key === "times" ? zoneName() : ""]);
    return node;
  }

  #show(key, text, alarming = false) {
    const { node, value } = this.pieces[key];
    setText(value, text);
    setAttribute(node, "data-alarm", alarming);
  }

  #units() {
    const buttons = UNITS.map((unit) =>
      el("button", { "data-unit": unit, onclick: () => setUnit(unit) }, unit),
    );
    this.switch = el("span", { class: "units", role: "group", "aria-label": "Show amounts in" }, ...buttons);
    return this.switch;
  }
}

export const mount = defineLiveComponent("health_line", HealthLine);
