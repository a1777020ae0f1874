// The open findings that speak of what is inspected, each with the moment it began. Nothing, without a heading, where none
// does.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { timeOfDay } from "./format.js";
import { momentLink } from "./inspect_lists.js";

export class SubjectFindings {
  constructor(frame) {
    this.frame = frame;
    this.list = el("ul", { class: "about" });
    this.node = el("div", { hidden: true }, el("h3", {}, "Open findings"), this.list);
  }

  /** `isAbout(subjects)`: whether a finding with these subjects, `{blocks, requests}`, speaks of it. */
  draw(isAbout) {
    const findings = (this.frame.feed.summary?.findings ?? []).filter(({ subjects }) => isAbout(subjects));
    setAttribute(this.node, "hidden", findings.length === 0);
    reconcile(
      this.list,
      findings,
      ({ id }) => id,
      (finding) => this.#make(finding),
      (node, finding) => setText(node.firstChild, finding.sentence),
    );
  }

  #make(finding) {
    const { epoch, seq0, severity, time } = finding;
    const began = momentLink(this.frame, `${epoch}.${seq0}`, `since ${timeOfDay(time)}`);
    return el("li", { "data-severity": severity }, el("div"), began);
  }
}
