// What all inspectors are made of: facts with their certainty, holders, and links to prefixes and moments.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { NO_DATA, shortHash, timeOfDay } from "./format.js";

const UNHEARD = new Set(["lost", "stale"]); // nobody tells what happens

/** Names and values. `frame`: the inspector. */
export class Facts {
  constructor(frame, names) {
    this.frame = frame;
    this.values = {};
    this.figures = {};
    this.node = el("dl", {}, ...names.flatMap((name) => this.#fact(name)));
  }

  set(name, text) {
    setText(this.values[name].firstChild, text ?? NO_DATA);
    this.#mark(name, null);
  }

  /** A figure as the API gives it; `write` turns its value into text. What is not exact says so. */
  setFigure(name, figure, write) {
    setText(this.values[name].firstChild, figure?.value == null ? NO_DATA : write(figure.value));
    this.#mark(name, figure?.value == null ? null : figure);
  }

  /** A hash as a link to its prefix, or words in its place. */
  setHash(name, hex, without) {
    const value = this.values[name].firstChild;
    if (hex == null) {
      value.kxHash = null;
      return setText(value, without);
    }
    if (value.kxHash === hex) return;
    value.kxHash = hex;
    value.replaceChildren(hashLink(this.frame, hex));
  }

  /** Whether there is anything to say under this name at all. */
  show(name, shown) {
    const value = this.values[name];
    for (const node of [value.previousSibling, value]) setAttribute(node, "hidden", !shown);
  }

  #fact(name) {
    const mark = el("span", { class: "certainty", hidden: true, tabindex: "0" });
    this.values[name] = el("dd", {}, el("span"), " ", mark);
    this.frame.tip.describe(mark, () => this.#explain(this.figures[name]));
    return [el("dt", {}, name), this.values[name]];
  }

  #mark(name, figure) {
    this.figures[name] = figure;
    const { lastChild: mark } = this.values[name];
    setAttribute(mark, "hidden", !figure || figure.certainty === "exact");
    setText(mark, (figure?.certainty ?? "").replaceAll("_", " "));
  }

  #explain(figure) {
    if (!figure) return [];
    const findings = this.frame.feed.summary?.findings ?? [];
    const sentence = (id) => findings.find((finding) => finding.id === id)?.sentence ?? id;
    const taints = (figure.taints ?? []).map((id) => `Spoiled by: ${sentence(id)}`);
    return [this.frame.data.words.certainties[figure.certainty], ...taints];
  }
}

/** A hash that leads to its prefix. */
export function hashLink(frame, hex) {
  const open = () => frame.selection.selectPrefix(hex);
  const link = el("button", { class: "hash link mono", onclick: open }, shortHash(hex));
  frame.tip.describe(link, () => ["Inspect this prefix", hex]);
  return link;
}

/** A heading that says how fresh what follows is. */
export class Freshness {
  constructor(title) {
    this.words = el("span", { class: "freshness" });
    this.node = el("h3", {}, title, this.words);
  }

  draw(feed, answers, isBehind) {
    const behind = isBehind || answers.isOld || answers.answer === null;
    const unheard = UNHEARD.has(feed.status.phase);
    const words = unheard ? "as last heard" : behind ? "catching up" : feed.isPast ? "as it was" : "up to date";
    setText(this.words, answers.problem ? "" : words);
    setAttribute(this.words, "data-behind", behind || unheard);
  }

  /** Of what is read from the event log, and not with every change: of when it is. */
  drawTime(answers) {
    const asOf = answers.answer ? `read at ${timeOfDay(new Date(answers.at).toISOString())}` : "";
    setText(this.words, answers.isFirst ? "reading the event log" : asOf);
    setAttribute(this.words, "data-behind", answers.isFirst || answers.isOld);
  }
}

/** Who holds something: links to their requests. */
export class Holders {
  constructor(frame) {
    this.frame = frame;
    this.list = el("ul", { class: "holders" });
    this.nobody = el("div", { class: "faint nobody" });
    this.node = el("div", {}, this.list, this.nobody);
  }

  /** `holders`: as the API gives them, null while they are not known. */
  draw(holders) {
    const key = (holder) => `${holder.holder} ${holder.request_id}`;
    reconcile(this.list, holders ?? [], key, (holder) => this.#make(holder), patchHolder);
    setText(this.nobody, this.frame.feed.isPast ? "Nobody held it." : "Nobody holds it.");
    setAttribute(this.nobody, "hidden", !holders || holders.length > 0);
  }

  #make({ request_id: request }) {
    const show = () => this.frame.selection.selectRequest(request);
    return el(
      "li",
      {},
      el("button", { class: "link mono", onclick: show }, request),
      el("span", { class: "muted status" }),
      el("span", { class: "badge critical", hidden: true }, "leaked"),
    );
  }
}

function patchHolder(node, holder) {
  const kind = holder.kind && holder.kind !== "request" ? `${holder.kind}, ` : "";
  setText(node.children[1], `${kind}${holder.status}`);
  setAttribute(node.children[2], "hidden", !holder.leaked);
}

/** Text that leads to a moment, EPOCH.SEQ. */
export function momentLink(frame, at, text) {
  const link = el("button", { class: "link faint mono time", onclick: () => frame.moment.go(at) }, text);
  frame.tip.describe(link, () => [`Event ${at}`, "Show the page as it was then"]);
  return link;
}
