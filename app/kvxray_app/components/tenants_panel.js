// Whose the cache is: what each tenant holds and has cached, what several share, what nobody tells, and who pushed whom
// out. The same on the Overview, the live page and the page of an engine that tells of hashes.

import { el, setAttribute, setText } from "./elements.js";
import { count, timeOfDay } from "./format.js";
import { Switch } from "./map_controls.js";
import { MapSlots } from "./map_slots.js";
import { TenantsBar, partOf } from "./tenants_bar.js";
import { KINDS } from "./tenants_choice.js";
import { TenantsCrossings } from "./tenants_crossings.js";
import { TenantsEvictions } from "./tenants_evictions.js";
import { namesAny, rowsOf } from "./tenants_rows.js";
import { TenantsTable } from "./tenants_table.js";
import { ASKING, KIND_WORDS, TITLE, nothingWords } from "./tenants_words.js";

const COLOURS = 7;
const LABELS = { held: "Held", cached: "Cached" };

export class TenantsPanel {
  /**
   * `on`: {toggle(key): a row was pressed, or hrefOf(key): where a row leads; marks: what either does, in words}.
   */
  constructor(tip, certainties, on, title = TITLE) {
    Object.assign(this, { tip, on });
    this.slots = new MapSlots(COLOURS);
    this.by = el("div", { class: "tenants-by" });
    this.when = el("span", { class: "muted" });
    this.bars = Object.entries(LABELS).map(([column, label]) => new Bar(column, label));
    this.table = new TenantsTable(tip, certainties, on);
    this.evictions = new TenantsEvictions();
    this.crossings = new TenantsCrossings();
    this.note = el("div", { class: "note" }, el("b"), el("span"));
    this.trouble = el("p", { class: "tenants-trouble", role: "status", hidden: true });
    const shares = el("div", { class: "tenants-shares" }, ...this.bars.map(({ node }) => node), this.table.node);
    this.body = el("div", { class: "tenants-body" }, shares, this.evictions.node);
    this.node = el(
      "section",
      { class: "panel tenants", "data-key": "tenants", "aria-label": title },
      el("div", { class: "panel-head" }, el("h2", {}, title), this.when, this.by),
      this.trouble,
      this.note,
      this.crossings.node,
      this.body,
    );
  }

  /**
   * `feed`: a TenantsFeed; `choice`: a TenantChoice. `findings`: those open; `blockHref(block, at)`: where a block is
   * looked at. `setBy(by)`: something else makes a tenant.
   */
  draw(feed, choice, findings, blockHref) {
    const { told: view } = feed;
    const isSome = view !== null && namesAny(view);
    setAttribute(this.node, "data-old", view !== null && !feed.isFresh);
    setText(this.trouble, feed.failed && view ? `${feed.failed} What is shown is of ${timeOfDay(view.time)}.` : "");
    setAttribute(this.trouble, "hidden", !this.trouble.textContent);
    this.#drawNote(feed, view, isSome);
    setAttribute(this.body, "hidden", !isSome);
    this.crossings.draw(findings, blockHref);
    this.#drawSwitch(view, choice);
    setText(this.when, view?.seq ? `as of event ${view.seq}` : "");
    if (isSome) this.#drawShares(view, choice);
  }

  #drawShares(view, choice) {
    const rows = rowsOf(view);
    const tenants = rows.filter(({ kind }) => KINDS.includes(kind));
    this.slots.place(tenants.map(({ key }, at) => [key, -at]));
    const coloured = rows.map((row) => ({ ...row, place: this.slots.get(row.key) }));
    for (const bar of this.bars) bar.draw(view, coloured);
    this.table.draw(view, coloured, choice.whose);
    const parts = new Map(coloured.map((row) => [row.key, partOf(row)]));
    this.evictions.draw(view, (key) => parts.get(key) ?? "others");
  }

  #drawNote(feed, view, isSome) {
    setAttribute(this.note, "hidden", isSome);
    if (isSome) return;
    const failed = ["Whose the cache is, is not known", `${feed.failed}${feed.isAsking ? " Trying again." : ""}`];
    const [title, words] = view ? nothingWords(view) : feed.failed ? failed : [ASKING, "A moment, please."];
    setText(this.note.firstChild, title);
    setText(this.note.lastChild, words);
  }

  // Offered where names tell more than one thing; one that was chosen can always be let go of.
  #drawSwitch(view, choice) {
    const told = KINDS.filter((kind) => view?.told.includes(kind) || kind === choice.by);
    const options = told.length > 1 || choice.by ? ["first", ...told] : [];
    const key = options.join();
    if (key !== this.options) {
      this.options = key;
      const words = Object.fromEntries(options.map((one) => [one, [KIND_WORDS[one][0], KIND_WORDS[one][2]]]));
      const get = () => choice.by ?? "first";
      this.switch = new Switch("What makes a tenant", options, words, this.tip, {
        get,
        set: (by) => choice.setBy(by === "first" ? null : by),
      });
      this.by.replaceChildren(this.switch.node);
    }
    setAttribute(this.by, "hidden", !options.length);
    this.switch.draw();
  }
}

/** A bar with its name and its total. */
class Bar {
  constructor(column, label) {
    Object.assign(this, { column, label });
    this.bar = new TenantsBar(label);
    this.total = el("span", { class: "number" });
    this.node = el("div", { class: "tenants-whole" }, el("span", { class: "muted" }, label), this.bar.node, this.total);
  }

  draw(view, rows) {
    const shares = view[this.column];
    setAttribute(this.node, "hidden", shares === null);
    if (shares === null) return;
    setText(this.total, count(shares.total));
    this.bar.draw(rows, this.column, `${this.label}: ${count(shares.total)} ${view.unit}, in parts by tenant`);
  }
}
