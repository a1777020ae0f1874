// Where the cached blocks are: one bar for each memory and group of layers.

import { el, reconcile, setAttribute, setStyle, setText } from "./elements.js";
import { NO_DATA, count } from "./format.js";
import { groupKind, mediumName } from "./residency_look.js";

export class ResidencyPlaces {
  constructor(tip) {
    this.tip = tip;
    this.list = el("ul", { class: "places" });
    this.nothing = el("div", { class: "note" }, "Nothing was told of any memory yet.");
    this.node = el(
      "section",
      { class: "panel", "aria-label": "Places" },
      el("div", { class: "panel-head" }, el("h2", {}, "Places")),
      this.nothing,
      this.list,
    );
  }

  draw(summary) {
    const places = summary?.places ?? [];
    const isOne = new Set(places.map(({ group }) => group)).size < 2;
    const most = Math.max(1, ...places.map((place) => place.capacity?.value ?? place.copies?.value ?? 0));
    setAttribute(this.nothing, "hidden", places.length > 0);
    reconcile(
      this.list,
      places,
      ({ place }) => place,
      () => this.#row(),
      (node, place) => patch(node, place, most, isOne),
    );
  }

  #row() {
    const parts = {
      name: el("b"),
      about: el("span", { class: "muted" }),
      number: el("span", { class: "number" }),
      certain: el("i", { "data-part": "certain" }),
      maybe: el("i", { "data-part": "maybe" }),
      unreachable: el("i", { "data-part": "unreachable" }),
      words: el("div", { class: "muted words" }),
    };
    const { name, about, number, certain, maybe, unreachable, words } = parts;
    const bar = el("div", { class: "bar" }, certain, unreachable, maybe);
    const node = el("li", { tabindex: "0" }, el("div", { class: "place-head" }, name, about, number), bar, words);
    node.kxParts = parts;
    this.tip.describe(node, () => node.kxLines);
    return node;
  }
}

function patch(node, place, most, isOne) {
  const { name, about, number, certain, maybe, unreachable, words } = node.kxParts;
  const copies = place.copies?.value ?? null;
  const lost = place.unreachable?.value ?? null;
  setText(name, mediumName(place.medium, place.tier));
  setText(about, isOne ? "" : `group ${place.group}, ${groupKind(place.kind)}`);
  setText(number, `${count(copies)}${place.capacity?.value == null ? "  ·  capacity not observable" : ` of ${count(place.capacity.value)}`}`);
  const share = (value) => `${((100 * (value ?? 0)) / most).toFixed(2)}%`;
  setStyle(certain, "width", share(Math.max(0, (place.certain ?? 0) - (lost ?? 0))));
  setStyle(unreachable, "width", share(lost));
  setStyle(maybe, "width", share(place.maybe));
  setText(words, partWords(place, lost).join("  ·  "));
  node.kxLines = [
    `${name.textContent} ${about.textContent}`,
    `${count(copies)} copies of ${count(place.hashes?.value)} different hashes, ${place.block_size ?? NO_DATA} tokens a block.`,
    place.reachable?.value == null ? "Which of them a prompt can reach was not told." : `${count(place.reachable.value)} can be reached from the root of their chain.`,
    lost ? `${count(lost)} can not: a block before them is gone.` : "",
    place.capacity?.value == null ? "How many blocks fit is not told by events; metrics may tell it." : "",
  ];
}

function partWords(place, lost) {
  return [
    `${count(place.certain)} certain`,
    place.maybe ? `${count(place.maybe)} maybe` : "",
    lost ? `${count(lost)} unreachable` : "",
    place.block_size ? `${count(place.block_size)} tokens a block` : "",
  ].filter(Boolean);
}
