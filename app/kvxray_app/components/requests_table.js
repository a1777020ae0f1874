// The requests that run, wait or just ended. Pointing at one lights up its blocks on the map; selecting it
// keeps them lit and shows the text it generates.

import { markFor } from "./alert_mark.js";
import { el, reconcile, setAttribute, setStyle, setText } from "./elements.js";
import { NO_DATA, count, duration, percent, seconds } from "./format.js";
import { GeneratedText } from "./generated_text.js";
import { LiveView, defineLiveComponent } from "./live_view.js";
import { RequestBlocks } from "./request_blocks.js";
import { amount, currentUnit, onUnit } from "./units.js";

const BLOCKS = { blocks: "Blocks", tokens: "Token slots", bytes: "Memory" };
const COLUMNS = [
  ["Request", "", "Its id, as the client or the engine gave it."],
  ["Status", "", "Waiting, running, preempted; or how it ended: finished, aborted, failed."],
  ["Prompt", "number", "Tokens of the prompt."],
  ["Output", "number", "Tokens generated so far."],
  ["From prefix cache", "hit", "Prompt tokens found in the prefix cache, which need not be computed again."],
  [
    BLOCKS.blocks,
    "number",
    "What it holds now, and how much of that others hold too. Follows the switch of units.",
  ],
  ["First token", "number spare", "Time from its arrival to its first token."],
  ["Age", "number spare", "Time since its arrival, by the engine's clock; of an ended request, from its arrival to its end."],
];

const SET_BACK_S = 1; // times cross by a hair, no clock that runs goes back by more

const HINT = "Point at a request to see its blocks, select it to read its text.";
const HINT_PAST = "Point at a request to see the blocks it held. Texts are not kept.";
const NOBODY_YET = "Requests appear here as soon as the engine gets one.";
const NOBODY_THEN = "The engine had none at this moment.";

class RequestsTable extends LiveView {
  constructor(context) {
    super(context);
    this.pointed = null;
    this.marked = markFor(this.data.source);
    this.text = new GeneratedText(this.data.source, () => this.selection.selectRequest(null));
    this.blocks = new RequestBlocks(this.feed, this.selection);
    this.#build();
    this.listen(
      this.feed.subscribe("summary", () => this.requestDraw()),
      this.selection.subscribe((what) => this.#chosen(what)),
      this.marked.subscribe(() => this.requestDraw()),
      onUnit(() => this.requestDraw()),
      () => this.text.close(),
      () => this.blocks.close(),
    );
  }

  draw() {
    const rows = this.feed.summary?.requests ?? [];
    setText(this.counts, this.#counts());
    setText(this.hint, this.feed.isPast ? HINT_PAST : HINT);
    setText(this.nothing.lastChild, this.feed.isPast ? NOBODY_THEN : NOBODY_YET);
    setText(this.head.children[5], BLOCKS[currentUnit()]);
    setAttribute(this.nothing, "hidden", rows.length > 0);
    reconcile(
      this.rows,
      rows,
      (row) => `${row.ordinal} ${row.request_id}`, // ordinals begin anew with an epoch
      (row) => this.#row(row),
      (node, row) => this.#patch(node, row),
    );
    this.#follow(rows);
  }

  #chosen(what) {
    if (what === "request") this.requestDraw();
    if (what !== "seek") return;
    const row = this.rows.querySelector("[aria-selected=true]");
    row?.scrollIntoView({ block: "center", behavior: "smooth" });
    row?.focus({ preventScroll: true });
  }

  // All of them, not only the rows shown.
  #counts() {
    const figures = this.feed.summary?.state?.figures;
    if (figures?.running?.value == null) return "";
    return `${count(figures.running.value)} running  ·  ${count(figures.waiting?.value)} waiting`;
  }

  #build() {
    this.counts = el("span", { class: "muted" });
    this.rows = el("tbody");
    this.nothing = el("div", { class: "note" }, el("b", {}, "No requests"), el("span"));
    this.head = el("tr", {}, ...COLUMNS.map((column) => this.#heading(column)));
    this.hint = el("span", { class: "hint faint" });
    this.halves = el(
      "div",
      { class: "halves" },
      el("div", { class: "list scroll" }, el("table", {}, el("thead", {}, this.head), this.rows), this.nothing),
      el("div", { class: "side" }, this.text.node),
    );
    this.root.append(
      el(
        "section",
        { class: "panel requests", "aria-label": "Requests" },
        el("div", { class: "panel-head" }, el("h2", {}, "Requests"), this.counts, this.hint),
        this.halves,
      ),
    );
    this.rows.addEventListener("pointerleave", () => this.#point(null));
  }

  #heading([name, kind, meaning]) {
    const node = el("th", { scope: "col", class: kind, tabindex: "0" }, name);
    this.tip.describe(node, () => [node.textContent, meaning]);
    return node;
  }

  #row(row) {
    const cells = COLUMNS.map(([, kind]) => el("td", { class: kind }));
    cells[0].append(el("span", { class: "id mono", title: row.request_id }, row.request_id));
    const leak = el("span", { class: "badge critical", hidden: true }, "leak");
    cells[0].append(el("span", { class: "badge critical", hidden: true }, "to blame"));
    cells[1].append(el("span", { class: "status" }), leak, el("span", { class: "faint spare" }));
    cells[4].append(el("span", { class: "meter" }, el("i")), el("span"));
    cells[5].append(el("span"), el("span", { class: "faint spare" }));
    const select = () =>
      this.selection.selectRequest(this.selection.request === row.request_id ? null : row.request_id);
    const node = el(
      "tr",
      { tabindex: "0", onclick: select, onpointerenter: () => this.#point(row.request_id) },
      ...cells,
    );
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      select();
    });
    return node;
  }

  #patch(node, row) {
    const cells = node.children;
    const hit =
      row.prompt_tokens && row.hit_tokens != null ? Math.min(1, row.hit_tokens / row.prompt_tokens) : null;
    const scheduled = row.status !== "waiting" || row.ttft_s?.value != null;
    setAttribute(node, "aria-selected", String(row.request_id === this.selection.request));
    const isMarked = Boolean(this.marked.requests?.includes(row.request_id));
    setAttribute(node, "data-marked", isMarked);
    setAttribute(cells[0].lastChild, "hidden", !isMarked);
    setAttribute(node, "data-ended", Boolean(row.ended_at));
    setAttribute(cells[1].children[1], "hidden", !row.leaked_blocks);
    setText(cells[1].firstChild, row.status);
    setText(cells[1].lastChild, row.preemptions ? `preempted ${count(row.preemptions)}×` : "");
    setAttribute(cells[1].firstChild, "data-status", row.status);
    setText(cells[2], count(row.prompt_tokens));
    setText(cells[3], count(row.output_tokens));
    setStyle(
      cells[4].firstChild.firstChild,
      "width",
      scheduled && hit !== null ? `${(hit * 100).toFixed(1)}%` : "0%",
    );
    setText(cells[4].lastChild, scheduled ? percent(hit) : NO_DATA);
    const { state } = this.feed.summary;
    setText(cells[5].firstChild, amount(row.blocks, state));
    setText(cells[5].lastChild, row.shared_blocks ? `, ${amount(row.shared_blocks, state)} shared` : "");
    setText(cells[6], seconds(row.ttft_s?.value));
    setText(cells[7], this.#age(row));
  }

  // By the engine's clock: the reader's may be another. An ended request ages no more; how old one is that came before the
  // clock was set back, nobody knows.
  #age(row) {
    const end = row.ended_at ? Date.parse(row.ended_at) : this.feed.now();
    const lived = (end - Date.parse(row.arrived_at)) / 1000;
    return lived < -SET_BACK_S ? NO_DATA : duration(lived);
  }

  #point(request) {
    this.pointed = request;
    this.#follow(this.feed.summary?.requests ?? []);
  }

  #follow(rows) {
    const shown = this.pointed ?? this.selection.request;
    this.blocks.show(shown, rows.find((row) => row.request_id === shown)?.blocks ?? -1);
    const read = this.feed.isPast ? null : this.selection.request;
    this.text.show(read, rows.find((row) => row.request_id === read)?.status);
    setAttribute(this.halves, "data-reading", read !== null);
  }
}

export const mount = defineLiveComponent("requests_table", RequestsTable);
