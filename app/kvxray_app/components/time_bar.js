// The bar at the foot of the page: the whole history at a glance. Quiet while the page is live, one press on it enters
// the past; there it has the controls that move through time. All it does is to set the page's moment: the feed takes
// everything else there.

import { Bookmarks } from "./bookmarks.js";
import { el, setAttribute, setText } from "./elements.js";
import { duration } from "./format.js";
import { LiveView, defineLiveComponent } from "./live_view.js";
import { momentWords, shownTime } from "./moment_words.js";
import { Player } from "./player.js";
import { TimeChart } from "./time_chart.js";
import { TimeControls } from "./time_controls.js";
import { TimeData } from "./time_data.js";
import { onTimeKeys } from "./time_keys.js";
import { TimeSteps } from "./time_steps.js";
import { TimeWindow } from "./time_window.js";

const SAY_MS = 4000;
const ZOOM = 1.6;

class TimeBar extends LiveView {
  constructor(context) {
    super(context);
    this.said = "";
    this.window = new TimeWindow();
    this.history = new TimeData(this.feed, this.window, () => this.#redraw());
    this.player = new Player(
      this.feed,
      () => this.window.whole?.to ?? 0,
      () => this.requestDraw(),
    );
    this.steps = new TimeSteps(
      this.feed,
      () => this.history.epochs(),
      (words) => this.#say(words),
    );
    this.bookmarks = new Bookmarks(this.feed, this.history);
    this.controls = new TimeControls(this.tip, this.#actions());
    this.chart = new TimeChart(this.window, this.history, {
      time: (ms) => this.moment.goTime(ms),
      mark: (mark) => this.#toMark(mark),
      stretch: () => this.#stretched(),
      changed: () => this.requestDraw(),
    });
    this.#build();
    this.listen(
      () => this.chart.close(),
      () => this.history.close(),
      () => this.player.stop(),
      () => this.bookmarks.close(),
      () => clearTimeout(this.saying),
      this.moment.subscribe(() => this.#moved()),
      this.feed.subscribe("summary", () => this.#moved()),
      this.feed.subscribe("status", () => this.requestDraw()),
      onTimeKeys(this.#keys()),
      this.#hook(),
    );
  }

  draw() {
    const { isPast } = this.feed;
    const words = momentWords(this.feed);
    setAttribute(this.bar, "data-past", isPast);
    setAttribute(this.controls.node, "hidden", !isPast);
    setAttribute(this.controls.zooms, "hidden", !isPast);
    setText(this.label, isPast ? "" : this.#label());
    setText(this.saidNode, this.said);
    setAttribute(this.saidNode, "hidden", !this.said);
    this.controls.draw({
      playing: this.player.playing,
      speed: this.player.speed,
      isWhole: this.window.isWhole,
      comparing: this.moment.beside !== null,
      numBookmarks: this.history.bookmarks.length,
      hasLive: this.moment.home === null,
      atEnd: this.player.atEnd,
      words,
    });
    this.bookmarks.draw();
    this.chart.inPast = isPast;
    this.chart.draw(
      { head: shownTime(this.feed), beside: isPast ? this.moment.besideTime : null, words: words || "live" },
      this.palette,
    );
  }

  retheme(palette) {
    this.chart.stale = true;
    super.retheme(palette);
  }

  #build() {
    this.label = el("span", { class: "label muted" });
    this.saidNode = el("div", { class: "said", role: "status", hidden: true });
    this.bar = el(
      "section",
      { class: "panel bar", "aria-label": "Time" },
      this.saidNode,
      this.controls.node,
      el("div", { class: "line" }, this.label, this.chart.node, this.controls.zooms),
      this.bookmarks.node,
    );
    this.root.append(this.bar);
  }

  #actions() {
    return {
      toggle: () => this.player.toggle(),
      speed: (speed) => this.player.setSpeed(speed),
      eventBack: () => this.steps.step("event", -1),
      event: () => this.steps.step("event", 1),
      stepBack: () => this.steps.step("step", -1),
      step: () => this.steps.step("step", 1),
      markBack: () => this.#markBeyond(-1),
      mark: () => this.#markBeyond(1),
      zoomIn: () => this.chart.zoom(1 / ZOOM),
      zoomOut: () => this.chart.zoom(ZOOM),
      showAll: () => this.chart.zoom(Infinity),
      compare: () => this.moment.compare(this.moment.beside === null ? this.feed.query().at : null),
      copyLink: () => this.#copyLink(),
      bookmarks: () => this.bookmarks.toggle(),
      live: () => this.moment.goLive(),
    };
  }

  // A key does what its button does, in the past only.
  #keys() {
    const { actions } = this.controls;
    const keys = {
      p: "toggle", ",": "eventBack", ".": "event", "<": "stepBack", ">": "step", "[": "markBack", "]": "mark",
      "-": "zoomOut", "+": "zoomIn", 0: "showAll", v: "compare", b: "bookmarks", l: "live",
    }; // prettier-ignore
    const inPast = (name) => () => this.feed.isPast && actions[name]();
    return Object.fromEntries(Object.entries(keys).map(([key, name]) => [key, inPast(name)]));
  }

  // For browser tests: where a time is on the chart, in page coordinates, and what is known of history.
  #hook() {
    const hook = {
      place: (ms) => this.chart.place(ms),
      whole: () => this.window.whole,
      shown: () => ({ from: this.window.from, to: this.window.to }),
      playing: () => this.player.playing,
    };
    window.__kvxray.time = hook;
    return () => window.__kvxray.time === hook && delete window.__kvxray.time;
  }

  #redraw() {
    this.chart.stale = true;
    this.requestDraw();
  }

  #stretched() {
    this.history.refreshSoon();
    this.#redraw();
  }

  // The page is at another moment: the window goes along.
  #moved() {
    const time = shownTime(this.feed);
    if (!this.feed.isPast) this.#becameLive();
    else if (time !== null && time !== this.time && !this.chart.dragging && this.window.follow(time))
      this.#stretched();
    this.time = time;
    this.requestDraw();
  }

  #becameLive() {
    this.player.stop();
    this.player.atEnd = false;
    this.bookmarks.close();
    if (!this.window.isWhole) this.chart.zoom(Infinity);
  }

  #label() {
    const { whole } = this.window;
    return whole ? `History  ·  ${duration((whole.to - whole.from) / 1000)}` : "History";
  }

  #markBeyond(direction) {
    const now = shownTime(this.feed) ?? 0;
    const here = this.feed.query().at;
    const marks = this.history.marks().filter((mark) => mark.at !== here);
    const mark =
      direction > 0 ? marks.find(({ time }) => time > now) : marks.findLast(({ time }) => time < now);
    if (mark) this.#toMark(mark);
    else this.#say(direction > 0 ? "No mark after this moment." : "No mark before this moment.");
  }

  #toMark(mark) {
    if (mark.at) this.moment.go(mark.at);
    else this.moment.goTime(mark.time);
    this.#say(mark.words);
  }

  async #copyLink() {
    this.moment.writeAddress();
    const copied = await navigator.clipboard?.writeText(location.href).then(
      () => true,
      () => false,
    );
    this.#say(copied ? "Link copied." : "Cannot copy here: the page's address is the link.");
  }

  #say(words) {
    this.said = words;
    clearTimeout(this.saying);
    this.saying = setTimeout(() => {
      this.said = "";
      this.requestDraw();
    }, SAY_MS);
    this.requestDraw();
  }
}

export const mount = defineLiveComponent("time_bar", TimeBar);
