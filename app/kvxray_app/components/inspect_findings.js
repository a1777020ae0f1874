// The open findings that speak of what is inspected, each with the moment it began. Nothing, without a heading, where none
// does. Summaries tell them as they are now; where there are too many for a summary, what the API says of the inspected
// has the rest.

import { el, reconcile, setAttribute, setWords } from "./elements.js";
import { whenWords } from "./moment_words.js";
import { momentLink } from "./inspect_lists.js";

// Lists of blocks end after the first thousand: whether it speaks of a later one, the API knows.
const isCut = ({ subjects, numbers }) => (numbers?.blocks ?? 0) > subjects.blocks.length;

export class SubjectFindings {
  constructor(frame) {
    this.frame = frame;
    this.list = el("ul", { class: "about" });
    this.node = el("div", { hidden: true }, el("h3", {}, "Open findings"), this.list);
  }

  /** `isAbout(subjects)`: whether a finding with these subjects, `{blocks, requests}`, speaks of it. `answered`: those that
   * the API told with it. */
  draw(isAbout, answered) {
    const { findings: told = [], num_findings: all = 0 } = this.frame.feed.summary ?? {};
    const named = new Set((answered ?? []).map(({ id }) => id));
    const newest = told.filter((one) => isAbout(one.subjects) || (isCut(one) && named.has(one.id)));
    const ids = new Set(newest.map(({ id }) => id));
    const others = told.length < all ? (answered ?? []).filter(({ id }) => !ids.has(id)) : [];
    const findings = [...newest, ...others];
    setAttribute(this.node, "hidden", findings.length === 0);
    reconcile(
      this.list,
      findings,
      ({ id }) => id,
      (finding) => this.#make(finding),
      (node, { sentence, subjects }) => setWords(node.firstChild, sentence, subjects.requests),
    );
  }

  #make(finding) {
    const { epoch, seq0, severity, time } = finding;
    const began = momentLink(this.frame, `${epoch}.${seq0}`, `since ${whenWords(time, false)}`);
    return el("li", { "data-severity": severity }, el("div"), began);
  }
}
