// The card with the bookmarks of a source: mark the moment shown with a note, go to one, remove one.

import { sendJson } from "./address.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { momentWords, whenWords } from "./moment_words.js";

const MAX_NOTE = 500; // characters, as the backend takes them

export class Bookmarks {
  /** `data`: has `bookmarks` and `refreshMarks()`. */
  constructor(feed, data) {
    this.feed = feed;
    this.data = data;
    this.note = el("input", {
      type: "text",
      maxlength: MAX_NOTE,
      placeholder: "What is there to see? (optional)",
      "aria-label": "Note",
    });
    this.now = el("div", { class: "muted" });
    this.problem = el("div", { class: "problem", role: "status" });
    this.list = el("ul", { class: "scroll" });
    const form = el(
      "form",
      { onsubmit: (event) => this.#save(event) },
      this.note,
      el("button", { class: "quiet-button save", type: "submit" }, "Mark it"),
    );
    this.node = el(
      "div",
      { class: "bookmarks", role: "dialog", "aria-label": "Bookmarks", hidden: true },
      this.now,
      form,
      this.problem,
      this.list,
    );
    this.node.addEventListener("keydown", (event) => this.#key(event));
    this.onPress = (event) => event.composedPath().includes(this.node) || this.close();
  }

  toggle() {
    if (!this.node.hidden) return this.close();
    this.node.hidden = false;
    setText(this.problem, "");
    this.draw();
    this.note.focus();
    // The press that opened it must not close it again.
    setTimeout(() => document.addEventListener("pointerdown", this.onPress), 0);
  }

  close() {
    this.node.hidden = true;
    this.note.blur(); // keys are no longer meant for it
    document.removeEventListener("pointerdown", this.onPress);
  }

  draw() {
    if (this.node.hidden) return;
    setText(this.now, `Mark ${momentWords(this.feed)}`);
    setAttribute(this.list, "hidden", this.data.bookmarks.length === 0);
    reconcile(
      this.list,
      this.data.bookmarks,
      (mark) => mark.id,
      (mark) => this.#row(mark),
      (node, mark) => setAttribute(node, "data-here", mark.at === this.feed.query().at),
    );
  }

  #row(mark) {
    const open = () => {
      this.close();
      this.feed.moment.go(mark.at);
    };
    return el(
      "li",
      {},
      el(
        "button",
        { class: "open", onclick: open },
        el("span", { class: "note-text" }, mark.note || "No note"),
        el("span", { class: "faint mono" }, `${whenWords(mark.time)}  ·  ${mark.at}`),
      ),
      el(
        "button",
        { class: "quiet-button", "aria-label": "Remove this bookmark", onclick: () => this.#remove(mark) },
        "×",
      ),
    );
  }

  async #save(event) {
    event.preventDefault();
    const body = { at: this.feed.query().at, note: this.note.value.trim() };
    await this.#tell("POST", "bookmarks", body, () => (this.note.value = ""));
  }

  #remove(mark) {
    return this.#tell("DELETE", `bookmarks/${encodeURIComponent(mark.id)}`);
  }

  async #tell(method, path, body, done = () => {}) {
    try {
      await sendJson(method, path, { source: this.feed.source }, body);
      done();
      setText(this.problem, "");
      await this.data.refreshMarks();
    } catch (error) {
      setText(this.problem, error.message);
    }
    this.draw();
  }

  #key(event) {
    if (event.key !== "Escape") return;
    event.preventDefault(); // the selection stays
    this.close();
  }
}
