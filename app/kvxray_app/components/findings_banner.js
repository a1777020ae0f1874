// What is wrong right now, as sentences: open findings, the worst first. Empty, and without height, when
// nothing is.

import { el, reconcile, setAttribute, setText, setWords } from "./elements.js";
import { count, plural } from "./format.js";
import { whenWords } from "./moment_words.js";
import { LiveView, defineLiveComponent } from "./live_view.js";

const RANK = { critical: 0, warning: 1, info: 2 };
const LOW_WINDOW = 900; // CSS pixels: there the map is worth more than a second sentence
const rank = ({ kind, severity }) => (kind === "stale" ? -1 : RANK[severity]); // all others are old news then
const ADVICE = {
  stale: "Start it again; of kvxray demo, with the command that its terminal shows.",
};

class FindingsBanner extends LiveView {
  constructor(context) {
    super(context);
    this.all = false;
    this.list = el("ul");
    this.more = el("button", { class: "link more", onclick: () => this.#toggle() });
    this.untold = el("span", { class: "faint untold", hidden: true });
    this.root.append(
      el(
        "div",
        {
          class: "findings",
          hidden: true,
          role: "region",
          "aria-label": "Open findings",
          "aria-live": "polite",
        },
        this.list,
        this.untold,
        this.more,
      ),
    );
    this.listen(this.feed.subscribe("summary", () => this.requestDraw()));
  }

  draw() {
    const { findings: told = [], num_findings: all = 0 } = this.feed.summary ?? {};
    const findings = [...told].sort((a, b) => rank(a) - rank(b) || (a.time < b.time ? 1 : -1));
    const most = innerHeight < LOW_WINDOW ? 1 : 2;
    const shown = this.all ? findings : findings.slice(0, most);
    reconcile(
      this.list,
      shown,
      (finding) => finding.id,
      (finding) => this.#row(finding),
      (node, finding) => patchRow(node, finding, this.feed.isPast),
    );
    const untold = Math.max(0, all - told.length);
    setAttribute(this.untold, "hidden", !this.all || untold === 0);
    setText(this.untold, `${count(untold)} more are open and not listed here.`);
    const hidden = findings.length + untold - most;
    setAttribute(this.more, "hidden", hidden <= 0);
    setText(this.more, this.all ? "Show fewer" : `Show ${plural(hidden, "more finding")}`);
    setAttribute(this.root.querySelector(".findings"), "hidden", findings.length === 0);
  }

  #toggle() {
    this.all = !this.all;
    this.requestDraw();
  }

  #show({ kind, subjects }) {
    this.selection.light({ label: kind.replaceAll("_", " "), blocks: subjects.blocks });
  }

  #row(finding) {
    const node = el(
      "li",
      { "data-severity": finding.severity },
      el("span", { class: "sign", role: "img", "aria-label": finding.severity }),
      el("span", { class: "sentence" }, el("span"), el("span", { class: "muted" })),
      el("time", { class: "faint" }),
      el("button", { class: "quiet-button", onclick: () => this.#show(node.kxFinding) }, "Show on map"),
    );
    return node;
  }
}

// A finding grows while it is open: its sentence and its blocks are those of the newest summary.
function patchRow(node, finding, isPast) {
  node.kxFinding = finding;
  setAttribute(node.lastChild, "hidden", finding.subjects.blocks.length === 0);
  setText(node.children[2], `since ${whenWords(finding.time, false)}`);
  const [sentence, advice] = node.children[1].children;
  setWords(sentence, finding.sentence, finding.subjects.requests);
  setText(advice, ADVICE[finding.kind] && !isPast ? ` ${ADVICE[finding.kind]}` : "");
}

export const mount = defineLiveComponent("findings_banner", FindingsBanner);
