// Figures of an engine that is watched from outside, as tiles: value, how sure, what spoils it. What the engine does not
// tell says so in words, never as a number.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { NO_DATA, count, percent, rate, secondsParts, size } from "./format.js";

export class ResidencyFigures {
  constructor(words, certainties, tip) {
    Object.assign(this, { certainties, tip, summary: null });
    this.tiles = words.tiles.map((tile) => this.#tile(tile));
    this.node = el(
      "section",
      { "aria-label": "Figures" },
      el("div", { class: "tiles" }, ...this.tiles.map(({ node }) => node)),
    );
    // Stands below the map: sentences come and go with the numbers, and must not move it.
    this.explanations = el("ul");
    this.differences = el(
      "section",
      { class: "panel explanations", "aria-label": "Where numbers rightly differ", hidden: true },
      el("div", { class: "panel-head" }, el("h2", {}, "Where numbers rightly differ")),
      this.explanations,
    );
  }

  draw(summary, isOld) {
    this.summary = summary;
    for (const tile of this.tiles) this.#drawTile(tile, isOld);
    const told = summary?.explanations ?? [];
    setAttribute(this.differences, "hidden", !told.length);
    reconcile(
      this.explanations,
      told,
      ({ panel, sentence }) => `${panel} ${sentence.length}`,
      () => el("li"),
      (node, { sentence }) => setText(node, sentence),
    );
  }

  #tile(words) {
    const tile = {
      words,
      mark: el("span", { class: "mark" }),
      taint: el("span", { class: "taint", role: "img", hidden: true, "aria-label": "spoiled by a finding" }),
      value: el("span", { class: "value" }),
      unit: el("span", { class: "unit" }),
      second: el("div", { class: "second" }),
    };
    tile.node = el(
      "div",
      { class: "tile", tabindex: "0", "data-figure": words.key },
      el("div", { class: "label" }, el("span", {}, words.label), tile.mark, tile.taint),
      el("div", {}, tile.value, tile.unit),
      tile.second,
    );
    this.tip.describe(tile.node, () => this.#explain(words));
    return tile;
  }

  #drawTile({ words, node, mark, taint, value, unit, second }, isOld) {
    const figure = this.summary?.figures[words.key] ?? null;
    const isUntold = figure?.certainty === "not_observable";
    const [text, unitText] = isUntold ? ["not observable", ""] : writtenFigure(figure);
    setText(value, text);
    setText(unit, unitText);
    setAttribute(value, "data-certainty", figure?.certainty);
    setAttribute(node, "data-untold", isUntold);
    setAttribute(node, "data-old", isOld);
    setAttribute(mark, "data-certainty", figure?.value == null ? "none" : figure.certainty);
    setAttribute(taint, "hidden", !figure?.taints?.length);
    setText(second, secondWords(words, this.summary?.figures));
  }

  #explain(words) {
    const figure = this.summary?.figures[words.key];
    const beside = words.second ? this.summary?.figures[words.second] : null;
    const isUntold = figure?.certainty === "not_observable";
    return [
      words.label,
      words.meaning,
      figure ? this.certainties[figure.certainty] : "",
      figure && figure.value == null && !isUntold ? `No value: ${words.no_data}` : "",
      figure?.since_seq ? `Known since event ${figure.since_seq}.` : "",
      beside?.value != null && beside.certainty !== figure?.certainty
        ? `${words.before}${writtenFigure(beside)[0]} ${words.after}: ${beside.certainty}`
        : "",
      ...(figure?.taints ?? []).map((id) => `Spoiled by: ${sentenceOf(this.summary, id)}`),
    ];
  }
}

/** A figure as [number, unit]; without a value an em dash. */
export function writtenFigure(figure) {
  if (figure?.value == null) return [NO_DATA, ""];
  const { value, unit } = figure;
  if (unit === "ratio") return [percent(value), ""];
  if (unit === "per_second") return [rate(value), "/s"];
  if (unit === "seconds") return secondsParts(value);
  if (unit === "bytes") return [size(value), ""];
  return [count(value), unit === "references" ? "" : value === 1 ? unit.replace(/s$/, "") : unit];
}

/** What a finding says, by its id. */
export const sentenceOf = (summary, id) => summary?.findings?.find((finding) => finding.id === id)?.sentence ?? id;

function secondWords({ second, before, after }, figures) {
  const figure = second ? figures?.[second] : null;
  if (!figure) return "";
  if (figure.value == null) return second === "capacity_blocks" ? "capacity not observable" : "";
  const [number, unit] = writtenFigure(figure);
  return `${before}${figure.unit === "seconds" ? [number, unit].join(" ") : number} ${after}`;
}
