// Figures of the overview in words: a value with its unit, an em dash where there is none, and "not observable" where
// the source does not tell; never a number for what is not known.

import { el, setAttribute, setText } from "./elements.js";
import { NO_DATA, count, percent, rate, seconds, size } from "./format.js";

/** A figure as text. plain: a ratio that is no share. */
export function figureText(figure, plain = false) {
  if (!figure) return NO_DATA;
  if (figure.value == null) return figure.certainty === "not_observable" ? "not observable" : NO_DATA;
  const { value, unit } = figure;
  if (unit === "ratio") return plain ? value.toFixed(2) : percent(value);
  if (unit === "per_second") return `${rate(value)}/s`;
  if (unit === "seconds") return seconds(value);
  if (unit === "bytes") return size(value);
  return count(value);
}

/** A label, a value and how sure it is; `explain()` gives the lines of its tooltip. */
export function figureRow(row, tip, explain) {
  const mark = el("span", { class: "mark" });
  const value = el("b", { class: "value" });
  const node = el(
    "div",
    { class: "row", tabindex: "0", "data-figure": row.figure },
    el("span", { class: "name" }, row.label),
    el("span", { class: "dots" }),
    value,
    mark,
  );
  tip.describe(node, explain);
  return { node, value, mark };
}

export function drawFigure({ node, value, mark }, figure, plain) {
  setText(value, figureText(figure, plain));
  setAttribute(node, "data-none", figure?.value == null);
  drawMark(mark, figure);
}

export function drawMark(mark, figure) {
  const certainty = figure?.value == null ? "none" : figure.certainty;
  const isSpoiled = Boolean(figure?.taints?.length);
  setAttribute(mark, "data-certainty", certainty);
  setAttribute(mark, "data-tainted", isSpoiled);
  setAttribute(mark, "role", certainty === "none" ? null : "img");
  setAttribute(mark, "aria-label", certainty === "none" ? null : isSpoiled ? "spoiled by a finding" : certainty);
}

/** Why and how sure, for a tooltip. */
export function explainFigure(row, figure, certainties, findings) {
  const spoiled = new Map(findings.map((finding) => [finding.id, finding.sentence]));
  const none = figure?.value == null;
  return [
    row.label,
    row.meaning,
    none ? `No value: ${row.no_data}` : "",
    figure ? certainties[figure.certainty] : "",
    ...(figure?.taints ?? []).map((id) => `Spoiled by: ${spoiled.get(id) ?? id}`),
  ];
}
