// The requests that run, wait or just ended. Pointing at one lights up its blocks on the map; selecting it
// keeps them lit and shows the text it generates.

import { el, reconcile, setAttribute, setStyle, setText } from "./elements.js";
import { age, count, percent, seconds } from "./format.js";
import { GeneratedText } from "./generated_text.js";
import { LiveView, defineLiveComponent } from "./live_view.js";
import { RequestBlocks } from "./request_blocks.js";

const COLUMNS = [
  ["Request", ""],
  ["Status", ""],
  ["Prompt", "number"],
  ["Output", "number"],
  ["From prefix cache", "hit"],
  ["Blocks", "number"],
  ["First token", "number spare"],
  ["Age", "number spare"],
];
const ENDED = new Set(["finished", "aborted", "failed"]);

class RequestsTable extends LiveView {
  constructor(context) {
    super(context);
    this.pointed = null;
    this.text = new GeneratedText(this.data.source);
    this.blocks = new RequestBlocks(this.data.source, this.selection);
    this.#build();
    this.listen(
      this.feed.subscribe("summary", () => this.requestDraw()),
      this.selection.subscribe((what) => what === "request" && this.requestDraw()),
      () => this.text.close(),
      () => this.blocks.close(),
    );
  }

  draw() {
    const rows = this.feed.summary?.requests ?? [];
    setText(this.counts, this.#counts());
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

  // All of them, not only the rows shown.
  #counts() {
    const figures = this.feed.summary?.state?.figures;
    if (figures?.running?.value == null) return "";
    return `${count(figures.running.value)} running  ·  ${count(figures.waiting?.value)} waiting`;
  }

  #build() {
    this.counts = el("span", { class: "muted" });
    this.rows = el("tbody");
    this.nothing = el(
      "div",
      { class: "note" },
      el("b", {}, "No requests"),
      "Requests appear here as soon as the engine gets one.",
    );
    const head = el("tr", {}, ...COLUMNS.map(([name, kind]) => el("th", { scope: "col", class: kind }, name)));
    this.hint = el(
      "span",
      { class: "hint faint" },
      "Point at a request to see its blocks, select it to read its text.",
    );
    this.halves = el(
      "div",
      { class: "halves" },
      el("div", { class: "list scroll" }, el("table", {}, el("thead", {}, head), this.rows), this.nothing),
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

  #row(row) {
    const cells = COLUMNS.map(([, kind]) => el("td", { class: kind }));
    cells[0].append(el("span", { class: "id mono" }, row.request_id));
    const leak = el("span", { class: "badge critical", hidden: true }, "leak");
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
    const hit = row.prompt_tokens ? Math.min(1, row.hit_tokens / row.prompt_tokens) : null;
    const scheduled = row.status !== "waiting" || row.ttft_s?.value != null;
    setAttribute(node, "aria-selected", String(row.request_id === this.selection.request));
    setAttribute(node, "data-ended", ENDED.has(row.status));
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
    setText(cells[4].lastChild, scheduled ? percent(hit) : "—");
    setText(cells[5].firstChild, count(row.blocks));
    setText(cells[5].lastChild, row.shared_blocks ? ` ${count(row.shared_blocks)} shared` : "");
    setText(cells[6], seconds(row.ttft_s?.value));
    setText(cells[7], age((Date.now() - Date.parse(row.arrived_at)) / 1000));
  }

  #point(request) {
    this.pointed = request;
    this.#follow(this.feed.summary?.requests ?? []);
  }

  #follow(rows) {
    const shown = this.pointed ?? this.selection.request;
    this.blocks.show(shown, rows.find((row) => row.request_id === shown)?.blocks ?? -1);
    this.text.show(this.selection.request);
    setAttribute(this.halves, "data-reading", this.selection.request !== null);
  }
}

export const mount = defineLiveComponent("requests_table", RequestsTable);
