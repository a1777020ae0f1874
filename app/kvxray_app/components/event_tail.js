// The newest events as they come. Summaries carry only some of them: what was left out between two is said, not
// hidden.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { runsOf } from "./event_runs.js";
import { eventWords } from "./event_words.js";
import { count, plural, timeOfDay } from "./format.js";
import { LiveView, defineLiveComponent } from "./live_view.js";
import { PastEvents } from "./past_events.js";

const KEEP = 400;
const SHOWN = 80;
const AFTER = 12; // of the past: rows of what came next
const STEPS = new Set(["StepStarted", "StepCompleted"]);
const TOKENS = new Set(["TokensGenerated", "BlockFilled"]);
const ABOUT = [
  "Events",
  "The newest ones as they come: the feed carries up to 30 twice a second. All of them are stored, see History.",
  "What one action did to many blocks is one line; press its number to see each of them.",
];
const ABOUT_PAST = [
  "Events",
  "Those up to the moment shown, and above the line those that came next. Press one's time to go there.",
  ABOUT[2],
];
const ABOUT_TOKENS = [
  "Every token",
  "Also list what every step tells of every request: TokensGenerated and BlockFilled. They would drown the rest.",
];

class EventTail extends LiveView {
  constructor(context) {
    super(context);
    this.events = [];
    this.paused = false;
    this.tokens = false; // what every token causes would drown the rest
    this.open = new Set(); // keys of the runs whose events are listed one by one
    this.#build();
    this.past = new PastEvents(this.feed, () => this.requestDraw());
    this.listen(
      this.feed.subscribe("summary", () => this.#told()),
      this.feed.subscribe("status", () => this.requestDraw()),
      () => this.past.forget(),
    );
    this.#told();
  }

  // The present tells its newest events by itself; of the past those around the moment are asked for.
  #told() {
    const { isPast, summary } = this.feed;
    if (isPast && summary?.state) this.past.goTo(summary.state.at);
    else if (isPast) this.past.forget();
    else if (summary) this.#take(summary.events);
    this.requestDraw();
  }

  draw() {
    const { isPast } = this.feed;
    const events = isPast ? this.past.events : this.events;
    setAttribute(this.nothing, "hidden", events.length > 0);
    setAttribute(this.pause, "hidden", isPast);
    setAttribute(this.pause, "aria-pressed", String(this.paused));
    setText(this.pause, this.paused ? "Resume" : "Pause");
    setAttribute(this.every, "aria-pressed", String(this.tokens));
    if (this.paused && !isPast) return;
    const shown = this.tokens
      ? events
      : events.filter((event) => !TOKENS.has(event.kind) && !STEPS.has(event.kind));
    reconcile(
      this.list,
      isPast ? this.#around(shown) : this.#unfolded(shown, SHOWN),
      (run) => run.key,
      (run) => this.#row(run),
      (node, run) => this.#patch(node, run),
    );
    if (isPast) this.#keepMarkInSight();
  }

  // What came next, the moment, and what led to it.
  #around(events) {
    const at = this.feed.query().at;
    const isLater = (event) => numberOf(event) > Number(at.slice(at.indexOf(".") + 1));
    const next = this.#unfolded(events.filter(isLater), Infinity).slice(-AFTER);
    const mark = { key: "moment", events: [], at };
    return [
      ...next,
      mark,
      ...this.#unfolded(
        events.filter((event) => !isLater(event)),
        SHOWN,
      ),
    ];
  }

  #keepMarkInSight() {
    const mark = this.list.querySelector(".moment");
    const seen = `${this.feed.query().at} ${this.past.from} ${this.tokens}`;
    if (!mark || this.seen === seen) return;
    this.seen = seen;
    const list = this.list.parentElement;
    list.scrollTop = Math.max(0, mark.offsetTop - list.offsetTop - list.clientHeight * 0.3);
  }

  // Runs as themselves, each followed by its events when it is open.
  #unfolded(events, most) {
    return runsOf(events)
      .slice(0, most)
      .flatMap((run) => {
        if (run.events.length < 2 || !this.open.has(run.key)) return [run];
        return [
          run,
          ...run.events.map((event) => ({ key: `${event.seq} alone`, events: [event], cut: false })),
        ];
      });
  }

  #build() {
    this.list = el("ol");
    this.title = el("h2", { tabindex: "0" }, "Events");
    this.tip.describe(this.title, () => (this.feed.isPast ? ABOUT_PAST : ABOUT));
    this.every = el(
      "button",
      { class: "quiet-button every", onclick: () => this.#toggle("tokens") },
      "Every token",
    );
    this.tip.describe(this.every, () => ABOUT_TOKENS);
    this.pause = el("button", { class: "quiet-button", onclick: () => this.#toggle("paused") }, "Pause");
    this.nothing = el(
      "div",
      { class: "note" },
      el("b", {}, "No events yet"),
      "Whatever happens to a block or a request is listed here.",
    );
    this.root.append(
      el(
        "section",
        { class: "panel tail", "aria-label": "Events" },
        el("div", { class: "panel-head" }, this.title, this.every, this.pause),
        el(
          "div",
          { class: "list scroll", tabindex: "0", "aria-label": "Newest events first" },
          this.list,
          this.nothing,
        ),
      ),
    );
  }

  #toggle(what) {
    this[what] = !this[what];
    this.requestDraw();
  }

  // Newest first. `before` is the seq of the event that truly precedes a row, when it is not the one shown
  // below it.
  #take(newest) {
    if (!newest?.length) return;
    const epoch = epochOf(newest[0]);
    if (this.events.length && epochOf(this.events[0]) !== epoch) this.events = [];
    const last = this.events.length ? numberOf(this.events[0]) : -1;
    const fresh = newest.filter((event) => numberOf(event) > last);
    if (!fresh.length) return;
    const skipped = last < 0 ? 0 : numberOf(fresh[fresh.length - 1]) - last - 1;
    fresh[fresh.length - 1].skipped = skipped;
    if (skipped) markCut(newest, fresh);
    this.events = [...fresh, ...this.events].filter((event) => !STEPS.has(event.kind)).slice(0, KEEP);
    this.requestDraw();
  }

  // How many events are missing below a row is told where all kinds are listed; elsewhere rows are missing
  // anyway.
  #patch(node, run) {
    if (!run.events.length) return setText(node.lastChild, run.at);
    const [newest] = run.events;
    const many = run.events.length > 1;
    const { when, block, times, words, missing } = node.kxParts;
    node.kxNewest = newest.seq;
    setText(when, timeOfDay(newest.time, true));
    setAttribute(when, "title", `Show the moment after event ${newest.seq}`);
    setAttribute(times, "hidden", !many);
    setText(times, many ? `×${count(run.events.length)}${run.cut ? " or more" : ""}` : "");
    setAttribute(times, "aria-expanded", String(this.open.has(run.key)));
    if (block) setAttribute(block, "hidden", many);
    setText(words, many ? causeWords(newest) : eventWords(newest));
    const skipped = this.tokens ? run.events[run.events.length - 1].skipped : 0;
    setAttribute(missing, "hidden", !skipped);
    setText(
      missing,
      skipped ? `${plural(skipped, "more event")} between${this.feed.isPast ? ", not stored" : ""}` : "",
    );
  }

  // Made of a run's oldest event, which stays the same while the run grows.
  #row(run) {
    if (!run.events.length)
      return el("li", { class: "moment" }, "the moment shown", el("span", { class: "mono" }));
    const event = run.events[run.events.length - 1];
    const toggle = () => {
      this.open.delete(run.key) || this.open.add(run.key);
      this.requestDraw();
    };
    const parts = {
      when: el("button", { class: "link faint mono time", onclick: () => this.moment.go(node.kxNewest) }),
      times: el("button", { class: "link", onclick: toggle, title: "List each of them" }),
      block: this.#blockLink(event),
      words: el("span", { class: "faint" }),
      missing: el("div", { class: "skipped faint", hidden: true }),
    };
    const kind = el("span", { class: "kind" }, event.kind);
    const what = [kind, parts.times, parts.block, this.#requestLink(event), parts.words].filter(Boolean);
    const node = el("li", {}, parts.when, el("div", { class: "what" }, ...what), parts.missing);
    setAttribute(node, "data-alone", run.key.endsWith(" alone"));
    node.kxParts = parts;
    return node;
  }

  #blockLink({ block_id: block }) {
    if (block == null) return null;
    const show = () => this.selection.selectBlock(block);
    return el("button", { class: "link", onclick: show }, `block ${count(block)}`);
  }

  #requestLink({ request_id: request }) {
    if (request == null) return null;
    const show = () => this.selection.selectRequest(request);
    return el("button", { class: "link request mono", onclick: show }, request);
  }
}

// A summary whose events of a group (those that tokens cause, all others) are all new may have had no room for older
// ones of that group: where they would be, a run cannot be told to be whole.
function markCut(newest, fresh) {
  for (const inGroup of [(event) => TOKENS.has(event.kind), (event) => !TOKENS.has(event.kind)]) {
    const ours = fresh.filter(inGroup);
    if (ours.length && ours.length === newest.filter(inGroup).length) ours[ours.length - 1].cut = true;
  }
}

const causeWords = (event) => (event.cause && event.cause !== "none" ? event.cause : "");
const numberOf = (event) => Number(event.seq.slice(event.seq.indexOf(".") + 1));
const epochOf = (event) => event.seq.slice(0, event.seq.indexOf("."));

export const mount = defineLiveComponent("event_tail", EventTail);
