// The text that one request is generating, or has generated: asked for twice a second while it is shown, the
// request runs and the tab is visible.

import { getJson, requestRoute } from "./address.js";
import { el, setText } from "./elements.js";

const ENDED = new Set(["finished", "aborted", "failed"]);

const PAUSE_MS = 500;
const DOING = { running: "generating", waiting: "waiting", preempted: "preempted, will go on" };

export class GeneratedText {
  /** `close()`: what the panel's button does. */
  constructor(source, close) {
    this.source = source;
    this.request = null;
    this.title = el("b", { class: "mono" });
    this.state = el("span", { class: "faint" });
    this.text = el("div", { class: "text scroll", tabindex: "0", role: "group", "aria-label": "Generated text" });
    this.node = el(
      "div",
      { class: "generated", hidden: true },
      el(
        "div",
        { class: "generated-head" },
        this.title,
        this.state,
        el("button", { class: "quiet-button", "aria-label": "Close the text", onclick: close }, "×"),
      ),
      this.text,
    );
    this.seen = false;
    this.watcher = new IntersectionObserver(([entry]) => this.#seen(entry.isIntersecting));
    this.watcher.observe(this.node);
    this.onVisibility = () => this.#again();
    document.addEventListener("visibilitychange", this.onVisibility);
  }

  /** Show a request's text, or nothing (null). `status`: the request's, undefined when it is in no table any more. */
  show(request, status) {
    const other = request !== this.request;
    if (other || status) this.status = status;
    if (other) this.#begin(request);
    this.#drawState();
  }

  #begin(request) {
    this.request = request;
    this.node.hidden = request === null;
    this.finished = false;
    this.problem = "";
    setText(this.title, request ?? "");
    setText(this.text, "");
    this.#stop();
    this.#again();
  }

  close() {
    this.watcher.disconnect();
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.#stop();
    this.request = null;
  }

  #seen(seen) {
    this.seen = seen;
    this.#again();
  }

  #again() {
    if (this.request === null || this.finished || !this.seen || document.hidden || this.asking) return;
    clearTimeout(this.timer);
    this.#ask();
  }

  async #ask() {
    const asking = (this.asking = new AbortController());
    try {
      const [path, named] = requestRoute(this.request, "/text");
      const answer = await getJson(path, { source: this.source, ...named }, asking.signal);
      if (asking !== this.asking) return;
      this.#put(answer);
    } catch (error) {
      if (asking !== this.asking || error.name === "AbortError") return;
      this.problem = error.message;
      this.finished = error.status === 404;
      this.#drawState();
    }
    this.asking = null;
    this.timer = setTimeout(() => this.#again(), PAUSE_MS);
  }

  // Follow the end of the text unless the reader scrolled up.
  #put({ text, finished }) {
    const { scrollHeight, scrollTop, clientHeight } = this.text;
    const atEnd = scrollHeight - scrollTop - clientHeight < 24;
    setText(this.text, text.trimStart());
    this.text.classList.toggle("writing", !finished);
    this.finished = finished;
    this.problem = "";
    this.#drawState();
    if (atEnd) this.text.scrollTop = this.text.scrollHeight;
  }

  // How a request ended only its status tells: the engine says no more of the text than that it is complete.
  #drawState() {
    const known = ENDED.has(this.status) || !this.finished ? this.status : "ended";
    setText(this.state, this.problem || (DOING[known] ?? known ?? ""));
  }

  #stop() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
  }
}
