// Tiles with the figures of the cache: value, certainty, what spoils it, and the last two minutes. A figure
// without a value is an em dash with the reason in its tooltip.

import { capacityLines, capacityWords } from "./capacity.js";
import { el, setAttribute, setText } from "./elements.js";
import { NO_DATA, count, percent, plural, rate, secondsParts, timeOfDay } from "./format.js";
import { LiveView, defineLiveComponent } from "./live_view.js";
import { Sparkline } from "./sparkline.js";
import { StateBar } from "./state_bar.js";
import { amount, onUnit, unitWord } from "./units.js";

const COURSE = "The line is its course over the last 2 minutes.";
const COURSE_BEFORE = "The line is the 2 minutes before this moment, each second by itself.";
const FULL_RATIO = 0.97;

class KpiTiles extends LiveView {
  constructor(context) {
    super(context);
    this.tiles = this.data.tiles.map((words) => this.#tile(words));
    this.grid = el("div", { class: "tiles" }, ...this.tiles.map((tile) => tile.node));
    this.root.append(this.grid);
    this.listen(
      this.feed.subscribe("summary", () => this.requestDraw()),
      this.feed.subscribe("status", () => this.requestDraw()),
      this.feed.moment.subscribe(() => this.requestDraw()),
      onUnit(() => this.requestDraw()),
    );
  }

  draw() {
    const state = this.feed.summary?.state ?? null;
    const { phase, reason } = this.feed.status;
    const current = phase === "live" || (phase === "past" && !reason);
    setAttribute(this.grid, "data-comparing", this.feed.isPast && this.feed.moment.beside !== null);
    for (const tile of this.tiles) this.#drawTile(tile, state, current);
  }

  #tile(words) {
    const tile = {
      words,
      spark: new Sparkline(),
      mark: el("span", { class: "mark" }),
      taint: el("span", { class: "taint", role: "img", hidden: true, "aria-label": "spoiled by a finding" }),
      value: el("span", { class: "value" }),
      unit: el("span", { class: "unit" }),
      second: el("div", { class: "second" }),
      capacity: words.wide ? el("span", { class: "capacity" }) : null,
      bar: words.wide ? new StateBar() : null,
    };
    tile.node = el(
      "div",
      { class: words.wide ? "tile wide" : "tile", tabindex: "0", "data-key": words.key },
      el("div", { class: "label" }, el("span", {}, words.label), tile.mark, tile.taint, tile.capacity),
      el("div", { class: "row" }, el("div", { class: "main" }, tile.value, tile.unit), tile.spark.node),
      el("div", {}, tile.bar?.node, tile.second),
    );
    this.tip.describe(tile.node, () => this.#explain(tile));
    return tile;
  }

  #drawTile(tile, state, current) {
    const figure = state?.figures[tile.words.key] ?? null;
    const [value, unit] = written(figure, state);
    setText(tile.value, value);
    setText(tile.unit, unit);
    setText(tile.second, figure?.value == null ? idleWords(tile, figure, state) : this.#second(tile, figure, state));
    setAttribute(tile.mark, "data-certainty", figure?.value == null ? "none" : figure.certainty);
    setAttribute(tile.taint, "hidden", !figure?.taints?.length);
    setAttribute(tile.node, "data-alarm", tile.words.alarm && figure?.value > 0);
    setAttribute(tile.node, "data-old", !current);
    tile.spark.draw(this.feed.figures.series(tile.words.key), figure?.unit === "ratio");
    tile.bar?.draw(state?.counts);
    if (tile.capacity) setText(tile.capacity, capacityWords(this.#about()));
  }

  // What the engine says it is; null before it was joined.
  #about() {
    return this.feed.summary?.source?.descriptor ?? null;
  }

  #second(tile, figure, state) {
    const { key, second, second_label: label } = tile.words;
    const beside = second ? state.figures[second]?.value : null;
    if (key === "used") return this.#usedWords(figure, state);
    if (key in state.counts) return `${amount(state.counts[key].value, state)} ${unitWord()}`;
    if (key === "hit_rate") return "of prompt tokens, 60 s";
    if (key === "internal_fragmentation") return "of held slots unwritten";
    if (key === "leaked")
      return figure.value > 0 ? this.#leakWords(figure, beside, label) : "every hold has an owner";
    if (key === "running") return beside == null ? "" : `${count(beside)} ${label}`;
    if (key === "ttft_p50_s") return beside == null ? "" : `${rate(beside)} tokens/s ${label}`;
    return beside == null ? "" : `${rate(beside)} ${label}/s`;
  }

  #usedWords(figure, state) {
    const [active, shared] = [state.counts.active?.value, state.counts.shared?.value];
    const held = active == null || shared == null ? null : active + shared;
    const full = figure.value >= FULL_RATIO ? " · full: new prompts wait or push others out" : "";
    return `${amount(held, state)} of ${amount(state.usable_blocks, state)} ${unitWord()}${full}`;
  }

  // How much of it no living request needs; when that is all, by whom it is held.
  #leakWords(figure, only, label) {
    const { summary } = this.feed;
    if (only != null && only < figure.value) return `${amount(only, summary.state)} ${label}`;
    const { leaking_requests: requests } = summary;
    return requests ? `held by ${plural(requests, "ended request")}` : "held too long";
  }

  #explain({ words }) {
    const state = this.feed.summary?.state;
    const figure = state?.figures[words.key];
    const since = figure && watchedSince(words, state);
    const findings = new Map(
      (this.feed.summary?.findings ?? []).map((finding) => [finding.id, finding.sentence]),
    );
    const taints = (figure?.taints ?? []).map((id) => `Spoiled by: ${findings.get(id) ?? id}`);
    const reason =
      figure?.value == null && figure?.certainty !== "not_observable" ? `No data: ${words.no_data}` : "";
    return [
      words.label,
      words.meaning,
      reason,
      since ? `It has been watched since ${since} only.` : "",
      figure ? this.data.words.certainties[figure.certainty] : "",
      figure?.value == null ? "" : this.feed.isPast ? COURSE_BEFORE : COURSE,
      ...(words.key === "used" ? capacityLines(this.#about()) : []),
      ...taints,
    ];
  }
}

// Why a figure has no value, in a few words; the tooltip has the sentence.
function idleWords({ words }, figure, state) {
  if (figure?.certainty === "not_observable") return "not observable";
  if (!figure || !words.window_s) return figure ? words.idle : "";
  const since = watchedSince(words, state);
  return `${words.idle} ${since ? `since ${since}` : `in ${words.window_s} s`}`;
}

// Since when its window was watched, where that is less than all of it; else "".
function watchedSince({ window_s: window }, { engine_time: now, watched_since: since }) {
  return since && Date.parse(now) - Date.parse(since) < window * 1000 ? timeOfDay(since) : "";
}

// A figure as [number, unit]; blocks follow the switch between blocks, tokens and bytes.
function written(figure, state) {
  if (figure?.value == null) return [NO_DATA, ""];
  const { value, unit } = figure;
  if (unit === "ratio") return [percent(value), ""];
  if (unit === "per_second") return [rate(value), "/s"];
  if (unit === "seconds") return secondsParts(value);
  if (unit === "blocks") return [amount(value, state), unitWord()];
  return [count(value), unit];
}

export const mount = defineLiveComponent("kpi_tiles", KpiTiles);
