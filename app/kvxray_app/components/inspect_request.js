// One request in full: where its time went, what it holds and with whom, what happened to it. Its status and tokens are
// those of the table of requests while it is listed there; the rest is asked for when that changes.

import { requestRoute } from "./address.js";
import { el, setAttribute, setText } from "./elements.js";
import { NO_DATA, count, percent, plural, seconds } from "./format.js";
import { whenWords } from "./moment_words.js";
import { Answers } from "./inspect_answers.js";
import { Events } from "./inspect_events.js";
import { SubjectFindings } from "./inspect_findings.js";
import { Facts, Freshness } from "./inspect_lists.js";
import { BlockStrip } from "./inspect_strip.js";
import { noTimeWords, requestWords } from "./inspector_words.js";

const PAUSE_MS = 800;
const HISTORY_PAUSE_MS = 2500; // it is read from the event log
const TIMES = { Waited: "waiting_s", Prefill: "prefill_s", "First token": "ttft_s", Decode: "decode_s" };
const FACTS = [
  "Prompt",
  "From prefix cache",
  "Generated",
  "Blocks held",
  "Arrived",
  ...Object.keys(TIMES),
  "Ended",
  "Preempted",
];

export class InspectRequest {
  /** `frame`: the inspector, as `inspector.js` describes it. */
  constructor(frame) {
    this.frame = frame;
    this.request = null;
    const changed = () => frame.requestDraw();
    this.details = new Answers(frame.feed, changed, PAUSE_MS);
    this.history = new Answers(frame.feed, changed, HISTORY_PAUSE_MS);
    this.status = el("span", { class: "request-status" });
    this.meaning = el("div", { class: "muted meaning" });
    this.facts = new Facts(frame, FACTS);
    this.row = el(
      "button",
      { class: "link", onclick: () => frame.selection.seekRequest() },
      "Show it in the table",
    );
    this.findings = new SubjectFindings(frame);
    this.freshness = new Freshness("Blocks");
    this.blocks = new BlockStrip(frame, "Blocks that the request holds");
    this.none = el("div", { class: "faint" });
    this.stored = new Freshness("History, newest first");
    this.events = new Events(frame, "request");
    this.node = el(
      "div",
      {},
      el("div", { class: "state" }, this.status),
      this.meaning,
      this.facts.node,
      el("div", { class: "chain" }, this.row),
      this.freshness.node,
      this.blocks.node,
      this.none,
      this.findings.node,
      this.stored.node,
      this.events.node,
    );
  }

  get title() {
    return this.request;
  }

  get answers() {
    return [this.details, this.history];
  }

  /** A request that the fold no longer knows may still have a history. */
  get refusal() {
    return this.details.refused && !this.history.answer ? this.details.problem : "";
  }

  turnTo(request) {
    this.request = request;
    this.seen = "";
    if (request === null) return this.answers.forEach((answers) => answers.turnTo(null));
    this.details.turnTo(...requestRoute(request));
    const [path, named] = requestRoute(request, "/history");
    this.history.turnTo(path, { ...named, limit: 200 });
  }

  blocksChanged(ids) {
    if (ids === null) this.#again();
  }

  /** Asked again when the table of requests tells something new of it. */
  summed() {
    for (const answers of this.answers) answers.follow();
    const row = this.#row();
    const { ordinal, status, output_tokens: output, blocks, shared_blocks: shared } = row ?? {};
    const seen = [ordinal, status, output, blocks, shared].join(" ");
    if (seen !== this.seen) this.#again();
    this.seen = seen;
  }

  draw() {
    const { answer } = this.details;
    const row = this.#row() ?? answer;
    setText(this.status, row?.status ?? "");
    setAttribute(this.status, "data-status", row?.status);
    setText(this.meaning, requestWords(row, this.details));
    setAttribute(this.meaning, "data-leaked", Boolean(row?.leaked_blocks));
    this.#drawTokens(row, answer);
    this.#drawTimes(row, answer);
    setAttribute(this.row.parentElement, "hidden", !this.#row());
    this.findings.draw(({ requests }) => requests.includes(this.request), answer?.findings);
    this.freshness.draw(this.frame.feed, this.details, Boolean(answer && row.blocks !== answer.blocks));
    this.blocks.draw(answer?.block_table ?? []);
    setText(this.none, this.frame.feed.isPast ? "It held none." : "It holds none.");
    setAttribute(this.none, "hidden", !answer || answer.block_table.length > 0);
    this.stored.drawTime(this.history);
    this.events.draw(this.history.answer?.events.toReversed() ?? (this.history.refused ? [] : null));
  }

  #again() {
    for (const answers of this.answers) answers.again();
  }

  #row() {
    return this.frame.feed.summary?.requests.find((row) => row.request_id === this.request) ?? null;
  }

  #drawTokens(row, answer) {
    this.facts.set("Prompt", row?.prompt_tokens == null ? NO_DATA : plural(row.prompt_tokens, "token"));
    this.facts.set("From prefix cache", hitWords(answer));
    this.facts.set("Generated", row?.output_tokens == null ? NO_DATA : plural(row.output_tokens, "token"));
    const shared = row?.shared_blocks ? `, ${count(row.shared_blocks)} shared` : "";
    this.facts.set("Blocks held", row ? `${count(row.blocks)}${shared}` : NO_DATA);
  }

  #drawTimes(row, answer) {
    this.facts.set("Arrived", row ? (row.arrived_at ? whenWords(row.arrived_at, false) : "not seen") : NO_DATA);
    for (const [name, key] of Object.entries(TIMES)) {
      const figure = answer?.[key];
      if (answer && figure?.value == null) this.facts.set(name, noTimeWords(name, row));
      else this.facts.setFigure(name, figure, seconds);
    }
    this.facts.set("Ended", row?.ended_at ? whenWords(row.ended_at, false) : NO_DATA);
    this.facts.show("Ended", Boolean(row?.ended_at));
    this.facts.set("Preempted", row ? `${count(row.preemptions)}×` : NO_DATA);
    this.facts.show("Preempted", Boolean(row?.preemptions));
  }
}

// Of what was looked up, which is more than the prompt where it was preempted and looked up again.
function hitWords(answer) {
  if (!answer || answer.hit_tokens == null) return NO_DATA;
  if (!answer.queried_tokens) return "nothing looked up yet";
  const { hit_tokens: hit, queried_tokens: queried } = answer;
  return `${count(hit)} of ${count(queried)} (${percent(hit / queried)})`;
}
