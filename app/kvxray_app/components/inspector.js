// A block, a request or a prefix in full: whichever was selected last, one at a time. This is the frame: its head, where to
// begin when nothing is selected, what cannot be shown, and the answers as JSON for a ticket.
//
// Each kind is a class of its own (`inspect_block.js`, `inspect_request.js`, `inspect_prefix.js`) with: `node`, `title`,
// `answers`, `refusal` (why there is nothing to show, or ""), `turnTo(id)` (null: nothing), `blocksChanged(ids)`, `summed()`
// and `draw()`. They use of the frame: feed, selection, moment, data, tip, requestDraw().

import { el, setAttribute, setText } from "./elements.js";
import { onBack } from "./inspect_back.js";
import { InspectBlock } from "./inspect_block.js";
import { copyFrom } from "./inspect_copy.js";
import { FindSubject } from "./inspect_find.js";
import { InspectPrefix } from "./inspect_prefix.js";
import { InspectRequest } from "./inspect_request.js";
import { LiveView, defineLiveComponent } from "./live_view.js";

const KINDS = new Set(["block", "prefix", "request"]);

class Inspector extends LiveView {
  constructor(context) {
    super(context);
    this.kinds = {
      block: new InspectBlock(this),
      request: new InspectRequest(this),
      prefix: new InspectPrefix(this),
    };
    this.shown = null; // the kind that is shown, null: nothing is selected
    this.#build();
    this.listen(
      this.feed.subscribe("blocks", (ids) => this.#tell((shown) => shown.blocksChanged(ids))),
      this.feed.subscribe("summary", () => this.#tell((shown) => shown.summed())),
      this.feed.subscribe("status", () => this.requestDraw()),
      this.selection.subscribe((what) => (KINDS.has(what) ? this.#select() : this.requestDraw())),
      onBack(this.data.source, this.selection, this.moment),
      () => this.shown?.turnTo(null),
    );
    this.#select();
  }

  draw() {
    const { shown } = this;
    const refusal = shown?.refusal ?? "";
    setAttribute(this.empty, "hidden", shown !== null);
    setAttribute(this.body, "hidden", !shown || refusal !== "");
    for (const button of [this.close_, this.copy]) setAttribute(button, "hidden", !shown);
    setText(this.title, shown?.title ?? "Inspector");
    setText(this.problemLine, refusal || (shown?.answers[0].problem ?? ""));
    setAttribute(this.problemLine, "data-alone", refusal !== "");
    this.#drawBack();
    if (shown) shown.draw();
  }

  #build() {
    this.title = el("h2");
    this.back = el("button", { class: "link back", onclick: () => this.selection.letGoOfSubject() });
    this.copy = el("button", { class: "quiet-button copy", onclick: () => this.#copy() }, "Copy JSON");
    this.tip.describe(this.copy, () => ["Copy as JSON", "What the API says of it, for a ticket."]);
    const close = () => this.selection.letGoOfSubject();
    const label = "Close the inspector";
    this.close_ = el("button", { class: "quiet-button", "aria-label": label, onclick: close }, "×");
    this.empty = new FindSubject(this.selection).node;
    this.problemLine = el("div", { class: "problem", role: "status" });
    const kinds = Object.values(this.kinds).map((kind) => kind.node);
    const body = { class: "body scroll", tabindex: "0", role: "group", "aria-label": "Details" };
    this.body = el("div", body, ...kinds);
    this.root.append(
      el(
        "section",
        { class: "panel inspector", "aria-label": "Inspector" },
        el("div", { class: "panel-head" }, this.title, this.copy, this.close_),
        this.back,
        this.empty,
        this.problemLine,
        this.body,
      ),
    );
  }

  #select() {
    const { subject } = this.selection;
    const next = subject && this.kinds[subject.kind];
    if (this.shown && this.shown !== next) this.shown.turnTo(null);
    if (next && (this.shown !== next || this.id !== subject.id)) {
      next.turnTo(subject.id);
      this.body.scrollTop = 0;
    }
    this.shown = next;
    this.id = subject?.id ?? null;
    for (const kind of Object.values(this.kinds)) setAttribute(kind.node, "hidden", kind !== next);
    this.requestDraw();
  }

  #tell(to) {
    if (this.shown) to(this.shown);
    this.requestDraw();
  }

  // A block or a prefix lies over the request that it was reached from.
  #drawBack() {
    const { subject, request } = this.selection;
    const under = subject && subject.kind !== "request" ? request : null;
    setAttribute(this.back, "hidden", under === null);
    setText(this.back, `‹ ${under ?? ""}`);
  }

  #copy() {
    const asked = this.shown.answers.filter((answers) => answers.answer !== null);
    const told = Object.fromEntries(asked.map((answers) => [answers.address, answers.answer]));
    return copyFrom(this.copy, JSON.stringify(told, null, 2));
  }
}

export const mount = defineLiveComponent("inspector", Inspector);
