// The verdict on one engine: a sentence, which of the four it is, what it rests on, and what could not be judged.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { drawMark, figureText } from "./overview_figures.js";
import { pageUrl } from "./overview_links.js";

export class VerdictCard {
  constructor(words, certainties, tip) {
    this.words = words;
    this.certainties = certainties;
    this.tip = tip;
    this.status = el("span", { class: "status" });
    this.sentence = el("h2", { class: "sentence" });
    this.advice = el("p", { class: "advice muted" });
    this.also = el("ul", { class: "also" });
    this.causes = el(
      "ul",
      { class: "causes", "aria-label": "Which of the four it is" },
      ...Object.keys(words.causes).map((key) => this.#cause(key)),
    );
    this.evidence = el("ul", { class: "evidence", "aria-label": "What it rests on" });
    this.notJudged = el("ul");
    this.unjudged = el("details", { class: "unjudged muted" }, el("summary"), this.notJudged);
    this.node = el(
      "section",
      { class: "verdict panel", "aria-label": "Verdict" },
      el("div", { class: "head" }, this.status, this.causes),
      this.sentence,
      this.advice,
      this.also,
      this.evidence,
      this.unjudged,
    );
  }

  draw(engine) {
    const { verdict } = engine;
    setAttribute(this.node, "data-status", verdict.status);
    setText(this.status, this.words.statuses[verdict.status]);
    setText(this.sentence, verdict.sentence);
    setText(this.advice, verdict.advice);
    setAttribute(this.advice, "hidden", !verdict.advice);
    for (const node of this.causes.children) setAttribute(node, "data-is", causeState(node.dataset.cause, engine));
    lines(this.also, verdict.also);
    this.#drawEvidence(engine);
    setAttribute(this.unjudged, "hidden", !verdict.not_judged.length);
    setText(this.unjudged.firstChild, `Not judged: ${verdict.not_judged.length}`);
    lines(this.notJudged, verdict.not_judged);
  }

  #drawEvidence(engine) {
    const { evidence } = engine.verdict;
    setAttribute(this.evidence, "hidden", !evidence.length);
    reconcile(
      this.evidence,
      evidence,
      (item) => item.name,
      (item) => this.#item(item),
      (node, item) => {
        const link = node.firstChild;
        node.kxFigure = item.figure;
        setAttribute(link, "href", pageUrl(item.page, engine.source, engine.at, item.query));
        setText(link.children[1], figureText(item.figure, item.name === "preemptions_per_finished"));
        drawMark(link.children[2], item.figure);
      },
    );
  }

  #item(item) {
    const link = el(
      "a",
      { "data-figure": item.name },
      el("span", { class: "muted" }, item.label),
      el("b"),
      el("span", { class: "mark" }),
    );
    const node = el("li", {}, link);
    const where = item.page === "live" ? "the live page" : "the timelines";
    this.tip.describe(link, () => [
      item.label,
      this.certainties[node.kxFigure.certainty],
      `Opens ${where} of this engine.`,
    ]);
    return node;
  }

  #cause(key) {
    const { label, meaning } = this.words.causes[key];
    const node = el("li", { "data-cause": key, tabindex: "0" }, label);
    this.tip.describe(node, () => [label, meaning, STATES[node.dataset.is]]);
    return node;
  }
}

const STATES = {
  cause: "This is where it comes from.",
  quiet: "Nothing is wrong here as far as can be told.",
  unknown: "Cannot be told just now.",
  unobservable: "Not observable: this source tells of none.",
};

// A source that tells of no transfers says nothing of them, well or not.
function causeState(key, { verdict, figures }) {
  if (verdict.cause === key) return "cause";
  if (key === "transfer" && figures.transfers?.value == null) return "unobservable";
  if (verdict.status === "cannot_tell") return "unknown";
  return verdict.status !== "healthy" && verdict.cause === null ? "unknown" : "quiet";
}

function lines(list, sentences) {
  setAttribute(list, "hidden", !sentences.length);
  reconcile(
    list,
    sentences.map((sentence, at) => [at, sentence]),
    ([at]) => at,
    () => el("li"),
    (node, [, sentence]) => setText(node, sentence),
  );
}
