// One signal: its number now with its unit and how sure it is, what it was over the stretch, and its parts.

import { el, reconcile, setAttribute, setStyle, setText } from "./elements.js";
import { SignalChart } from "./signals_chart.js";
import { amount, besides, explanation, perSecond, readout, summary, valueOf } from "./signals_words.js";

const PARTS = 7;

export class SignalCard {
  /** `point(at or null)`: the place in the stretch that the pointer is on. */
  constructor(name, certainties, tip, point) {
    this.name = name;
    this.label = el("span", { class: "label", tabindex: "0" });
    this.mark = el("span", { class: "mark", role: "img" });
    this.value = el("b", { class: "value" });
    this.beside = el("span", { class: "beside" });
    this.chart = new SignalChart(point);
    this.parts = el("ul", { class: "parts" });
    this.total = el("span", { class: "total" });
    this.node = el(
      "article",
      { class: "signal", "data-signal": name },
      el("header", {}, this.label, this.mark),
      el("div", { class: "now" }, this.value, this.beside),
      this.chart.node,
      this.total,
      this.parts,
    );
    tip.describe(this.label, () => (this.signal ? explanation(this.signal, certainties) : []));
  }

  /** `line`: its course, null while it is not told; `note`: why. */
  draw(signal, line, palette, note) {
    this.signal = signal;
    this.line = line;
    setText(this.label, signal.label);
    setAttribute(this.mark, "data-certainty", signal.certainty);
    setAttribute(this.mark, "aria-label", signal.certainty);
    this.chart.draw(line, palette, line ? summary(line) : note, line ? `${signal.label}. ${summary(line)}` : note);
    setText(this.total, line?.total ? `${amount(line.total, signal.unit)} in this stretch` : "");
    this.drawCursor(this.at ?? null, null);
    this.#drawParts(signal, palette);
  } // prettier-ignore

  /** `when`: the time in words. */
  drawCursor(at, when) {
    this.at = at;
    if (when !== null || at === null) this.when = when;
    this.chart.drawCursor(at);
    const isHere = at !== null && this.line && at < this.line.values.length;
    setText(this.value, isHere ? readout(this.line, at) : valueOf(this.signal));
    setText(this.beside, isHere ? this.when : besides(this.signal));
    setAttribute(this.node, "data-pointed", isHere);
    setAttribute(this.node, "data-none", !isHere && valueOf(this.signal) === "—");
  }

  #drawParts({ parts, unit, kind }, palette) {
    const order = Object.keys(this.line?.parts ?? {});
    const shown = parts.length > 1 ? parts.slice(0, PARTS) : [];
    reconcile(this.parts, shown, nameOf, () => el("li", {}, el("i"), el("span"), el("b")), (node, part) => {
      const [swatch, name, value] = node.children;
      const at = order.indexOf(nameOf(part));
      setStyle(swatch, "background", at >= 0 && at < PARTS && order.length > 1 ? colourOf(at, palette) : "transparent");
      setText(name, nameOf(part) || "unnamed");
      setText(value, kind === "counter" ? perSecond(part.rate_per_s, unit) : amount(part.value, unit));
    }); // prettier-ignore
  }
}

const nameOf = ({ labels }) => Object.values(labels)[0] ?? "";

const colourOf = (at, palette) => palette[`kx-holder-${at + 1}`];
