// The text that one request is generating, asked for twice a second while it is shown, the request runs and the
// tab is visible.

import { getJson } from "./address.js";
import { el, setText } from "./elements.js";

const PAUSE_MS = 500;

export class GeneratedText {
  constructor(source) {
    this.source = source;
    this.request = null;
    this.title = el("b", { class: "mono" });
    this.state = el("span", { class: "faint" });
    this.text = el("div", { class: "text scroll", tabindex: "0", "aria-label": "Generated text" });
    this.node = el(
      "div",
      { class: "generated", hidden: true },
      el("div", { class: "generated-head" }, this.title, this.state),
      this.text,
    );
    this.seen = false;
    this.watcher = new IntersectionObserver(([entry]) => this.#seen(entry.isIntersecting));
    this.watcher.observe(this.node);
    this.onVisibility = () => this.#again();
    document.addEventListener("visibilitychange", this.onVisibility);
  }

  /** Show a request's text, or nothing (null). */
  show(request) {
    if (request === this.request) return;
    this.request = request;
    this.node.hidden = request === null;
    this.finished = false;
    setText(this.title, request ?? "");
    setText(this.state, "");
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
      const answer = await getJson(
        `requests/${encodeURIComponent(this.request)}/text`,
        { source: this.source },
        asking.signal,
      );
      if (asking !== this.asking) return;
      this.#put(answer);
    } catch (error) {
      if (asking !== this.asking || error.name === "AbortError") return;
      setText(this.state, error.message);
      this.finished = error.status === 404;
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
    setText(this.state, finished ? "finished" : "generating");
    this.finished = finished;
    if (atEnd) this.text.scrollTop = this.text.scrollHeight;
  }

  #stop() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
  }
}
