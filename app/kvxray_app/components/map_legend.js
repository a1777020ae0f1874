// The legend of the map: the classes that its colours tell apart, with live counts. Press one and the others step back.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count } from "./format.js";
import { STATES } from "./frames.js";
import { LEAKED } from "./map_look.js";
import { amount } from "./units.js";

const STATE_ORDER = ["shared", "active", "cached", "free", "empty", "unknown", "leaked"];
const SHOWN_WHEN_SOME = new Set(["unknown", "leaked", "other"]);
const LAST = new Set(["nobody", "keeps nothing", "unknown"]);
const UNKNOWN_IN = {
  references: "How many hold it is not known: before the first snapshot, or after a gap.",
  age: "Its age is not known, or the next answer tells: ages are asked for about once a second.",
  holder: "Who holds it is not known, or the next answer tells: holders are asked for about once a second.",
  tenant: "For whom it is held is not known, or the next answer tells: asked for about once a second.",
  medium: "The source does not tell in which memory it lies.",
};
const MEANINGS = {
  several: { holder: "Several hold it at once.", tenant: "Requests of several tenants hold it at once." },
  "not told": { tenant: "The requests that hold it do not say for which tenant they are." },
};
const A_TENANT = "A tenant, as a digest: equal wherever the tenant is.";
const COUNT_EVERY_MS = 500; // counting a million blocks takes some milliseconds

export class Legend {
  /** `toggle(class)`: it shall stand out, or no longer. */
  constructor(tip, words, toggle) {
    Object.assign(this, { tip, words, toggle });
    this.node = el("div", { class: "legend", role: "group", "aria-label": "Legend" });
    this.counted = null;
  }

  /** `look`: of the map; `state`: of the newest summary, for the unit in which amounts are written. */
  draw(look, table, state) {
    const entries = look.mode === "state" ? stateEntries(table) : this.#entries(look, table);
    const written = (blocks) => (blocks == null ? "" : state ? amount(blocks, state) : count(blocks));
    const shown = entries.filter(
      ({ name, blocks, isNamed }) => isNamed || !SHOWN_WHEN_SOME.has(name) || blocks > 0,
    );
    setAttribute(this.node, "data-filtered", Boolean(look.only));
    reconcile(
      this.node,
      shown,
      ({ at, name }) => `${look.mode} ${at} ${name}`,
      (entry) => this.#item(entry, look),
      (node, entry) => this.#patch(node, entry, look, written, table),
    );
  }

  #entries(look, table) {
    const now = performance.now();
    const { counted } = this;
    const isOld = !counted || counted.mode !== look.mode || now - counted.at > COUNT_EVERY_MS;
    if (isOld || counted.table !== table || counted.version !== look.details.version) {
      const { version } = look.details;
      this.counted = { mode: look.mode, version, table, at: now, counts: table ? look.counts(table) : null };
    }
    const { counts } = this.counted;
    const first = look.classes.findIndex(({ name }) => name === null);
    const named = first < 0 ? [] : look.details.slotNames(look.mode);
    const entries = look.classes.map(({ name }, at) => ({
      at,
      name: name ?? named[at - first],
      blocks: counts ? counts[at] : null,
      isNamed: name === null, // by somebody outside, who may call himself anything
    }));
    const isLast = ({ name, isNamed }) => !isNamed && LAST.has(name);
    const isSome = look.mode !== "tenant" || named.some((name) => name !== null);
    const told = entries.filter((entry) => entry.name && !isLast(entry) && (isSome || entry.blocks > 0));
    if (look.mode === "age") told.reverse();
    return [...told, ...entries.filter(isLast).reverse()];
  }

  #item({ name, at, isNamed }, look) {
    const node = el(
      "button",
      { class: "chip", type: "button", "data-state": name, onclick: () => this.toggle(at) },
      el("i", { class: "swatch", "data-state": look.mode === "state" ? name : null }),
      el("span", { class: "chip-name" }, name),
      el("b"),
      el("span", { class: "aside" }),
    );
    const meaning = this.#meaning(name, look.mode, isNamed);
    const title = name[0].toUpperCase() + name.slice(1);
    if (meaning) this.tip.describe(node, () => [title, meaning, "Press to make it stand out."]);
    return node;
  }

  #meaning(name, mode, isNamed) {
    if (mode === "state") return name === "leaked" ? this.words.leaked : this.words.states[name];
    if (isNamed) return mode === "tenant" ? A_TENANT : "";
    return name === "unknown" ? UNKNOWN_IN[mode] : (MEANINGS[name]?.[mode] ?? "");
  }

  #patch(node, { at, name, blocks }, look, written, table) {
    setText(node.children[2], written(blocks));
    if (look.mode !== "state") node.firstChild.style.setProperty("--swatch", look.colours[at]);
    if (look.mode === "state" && name === "leaked") setText(node.lastChild, leakedOnlyWords(table, written));
    setAttribute(node, "aria-pressed", String(Boolean(look.only?.has(at))));
  }
}

function stateEntries(table) {
  const counts = { ...table?.countsByName(), leaked: table?.leaked };
  return STATE_ORDER.map((name) => ({
    at: name === "leaked" ? LEAKED : STATES.indexOf(name),
    name,
    blocks: counts[name] ?? null,
  }));
}

// Of the leaked blocks, those that no living request needs: what a fix would give back at once.
function leakedOnlyWords(table, written) {
  if (table.leakedOnly === table.leaked) return "";
  return `, ${written(table.leakedOnly)} held by nobody living`;
}
