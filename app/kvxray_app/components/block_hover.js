// What the backend knows of the block that is pointed at, in a few words for its card: who holds it, how old it is, its
// hash. Asked for when the pointer rests; what the block has become since is told by the map itself, and asked for again.

import { getJson } from "./address.js";
import { age, shortHash } from "./format.js";

const REST_MS = 180;
const NAMED = 3;

export class BlockHover {
  /** `changed()`: there are words now. */
  constructor(feed, changed) {
    Object.assign(this, { feed, changed });
    this.key = "";
    this.words = [];
  }

  /** Lines about a block as it is now; none until there is an answer. */
  linesOf(table, block) {
    const key = [block, table.epoch, table.state[block], table.ref[block], this.feed.query().at].join(" ");
    if (key !== this.key) this.#turnTo(key, block);
    return this.words;
  }

  /** Nothing is pointed at. */
  rest() {
    this.key = "";
    this.words = [];
    clearTimeout(this.timer);
    this.asking?.abort();
  }

  #turnTo(key, block) {
    this.rest();
    this.key = key;
    this.timer = setTimeout(() => this.#ask(key, block), REST_MS);
  }

  async #ask(key, block) {
    this.asking = new AbortController();
    const query = this.feed.query({ history: 0 });
    const answer = await getJson(`blocks/${block}`, query, this.asking.signal).catch(() => null);
    if (!answer || key !== this.key) return;
    this.words = [holderWords(answer.holders), ageWords(answer), hashWords(answer)].filter(Boolean);
    this.changed();
  }
}

function holderWords(holders) {
  const names = [...new Set(holders.map((holder) => holder.request_id))];
  const more = names.length - NAMED;
  return names.slice(0, NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function ageWords({ age_s: figure }) {
  if (figure.value == null) return "";
  const sure = figure.certainty === "exact" ? "" : `, ${figure.certainty.replaceAll("_", " ")}`;
  return `allocated ${age(figure.value)} ago${sure}`;
}

const hashWords = ({ block_hash: hash }) => (hash ? `hash ${shortHash(hash)}` : "");
