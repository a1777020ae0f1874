// The buttons of the time bar: steps, play and its speed, marks, zoom, compare, link, bookmarks, and back to live.

import { el, setAttribute, setText, svg } from "./elements.js";
import { SPEEDS } from "./player.js";

const SHAPES = {
  play: ["M4 2.5 13 8 4 13.5Z"],
  pause: ["M4 3h3v10H4z", "M9 3h3v10H9z"],
  back: ["M11 3 5 8l6 5z"],
  forward: ["M5 3l6 5-6 5z"],
  farBack: ["M13 3 8 8l5 5z", "M8 3 3 8l5 5z"],
  flag: ["M4 2h1.5v12H4z", "M6 2.5h7.5l-2.2 3 2.2 3H6z"],
  farForward: ["M3 3l5 5-5 5z", "M8 3l5 5-5 5z"],
};

const icon = (name) =>
  svg(
    "svg",
    { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" },
    ...SHAPES[name].map((d) => svg("path", { d })),
  );

/** The row of buttons. `actions`: what each does, by name; `tip`: explains them. */
export class TimeControls {
  constructor(tip, actions) {
    this.tip = tip;
    this.actions = actions;
    this.play = this.#button("toggle", [icon("play"), icon("pause")], "Play, pause", "P", "play");
    this.speeds = el(
      "span",
      { class: "segments", role: "group", "aria-label": "Speed" },
      ...SPEEDS.map((speed) =>
        el("button", { "data-speed": speed, onclick: () => actions.speed(speed) }, `${speed}×`),
      ),
    );
    this.moment = el("span", { class: "moment mono", role: "status" });
    this.whole = this.#button("showAll", ["All"], "Show the whole history", "0");
    this.compare = this.#button("compare", ["Compare"], "Keep this moment beside the one you go to next", "V");
    this.link = this.#button(
      "copyLink",
      ["Copy link"],
      "Copy a link that shows this moment to whoever opens it",
      "",
    );
    this.bookmarks = this.#button("bookmarks", ["Bookmarks"], "Mark this moment, go to those marked", "B");
    this.live = this.#button("live", [el("i", { class: "dot" }), "Live"], "Back to the present", "L", "live");
    this.zooms = el(
      "span",
      { class: "zooms" },
      this.#button("zoomIn", ["+"], "Show less time; the wheel does it too", "+"),
      this.#button("zoomOut", ["−"], "Show more time; the wheel does it too", "-"),
      this.whole,
    );
    this.node = el("div", { class: "controls" }, ...this.#groups());
  }

  draw({ playing, speed, isWhole, comparing, numBookmarks, hasLive, atEnd, words }) {
    setAttribute(this.play, "aria-pressed", String(playing));
    for (const button of this.speeds.children)
      setAttribute(button, "aria-pressed", String(Number(button.dataset.speed) === speed));
    setAttribute(this.whole, "disabled", isWhole);
    setAttribute(this.compare, "aria-pressed", String(comparing));
    setText(this.compare, comparing ? "Stop comparing" : "Compare");
    setText(this.bookmarks, numBookmarks ? `Bookmarks (${numBookmarks})` : "Bookmark");
    setAttribute(this.live, "hidden", !hasLive);
    setAttribute(this.live, "data-urgent", atEnd);
    setText(this.moment, words);
  }

  #groups() {
    const group = (...buttons) => el("span", { class: "group" }, ...buttons);
    return [
      group(
        this.#button("stepBack", [icon("farBack"), "step"], "Back by one step of the engine", "<"),
        this.#button("eventBack", [icon("back"), "event"], "Back by one event", ","),
        this.play,
        this.#button("event", ["event", icon("forward")], "Forward by one event", "."),
        this.#button("step", ["step", icon("farForward")], "Forward by one step of the engine", ">"),
      ),
      this.speeds,
      this.moment,
      group(
        this.#button(
          "markBack",
          [icon("back"), icon("flag")],
          "To the mark before: a finding, a gap, an epoch, a bookmark",
          "[",
        ),
        this.#button(
          "mark",
          [icon("flag"), icon("forward")],
          "To the next mark: a finding, a gap, an epoch, a bookmark",
          "]",
        ),
      ),
      group(this.compare, this.link, this.bookmarks),
      this.live,
    ];
  }

  #button(action, parts, meaning, key, kind = "") {
    const node = el("button", {
      class: `quiet-button ${kind}`,
      "aria-label": meaning,
      onclick: () => this.actions[action](),
    });
    node.append(...parts);
    this.tip.describe(node, () => [meaning, key ? `Key: ${key}` : ""]);
    return node;
  }
}
