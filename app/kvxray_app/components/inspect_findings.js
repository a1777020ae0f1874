// The open findings that speak of what is inspected, each with the moment it began. Nothing, without a heading, where none
// does. Summaries tell them as they are now; where there are too many for a summary, what the API says of the inspected
// has the rest.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { timeOfDay } from "./format.js";
import { momentLink } from "./inspect_lists.js";

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
    const newest = told.filter(({ subjects }) => isAbout(subjects));
    const ids = new Set(newest.map(({ id }) => id));
    const others = told.length < all ? (answered ?? []).filter(({ id }) => !ids.has(id)) : [];
    const findings = [...newest, ...others];
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
