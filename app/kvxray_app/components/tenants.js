// The panel of tenants on the live page: a row lights up the blocks of its tenant on the map, while they change.

import { count } from "./format.js";
import { LiveView, defineLiveComponent } from "./live_view.js";
import { pageUrl } from "./overview_links.js";
import { tenantChoiceFor } from "./tenants_choice.js";
import { TenantsFeed } from "./tenants_feed.js";
import { TenantMarks } from "./tenants_marks.js";
import { TenantsPanel } from "./tenants_panel.js";
import { rowName } from "./tenants_words.js";

const MARKS = "Press to mark its blocks on the map.";

class Tenants extends LiveView {
  constructor(context) {
    super(context);
    const { source, words } = this.data;
    this.choice = tenantChoiceFor(source);
    this.panel = new TenantsPanel(this.tip, words.certainties, { toggle: (key) => this.choice.toggle(key), marks: MARKS });
    this.root.append(this.panel.node);
    this.tenants = new TenantsFeed(() => this.requestDraw());
    this.lit = null; // what this panel lit up
    this.marks = new TenantMarks(this.choice, () => ({ source, at: this.moment.at }), () => this.#light());
    this.listen(
      () => this.tenants.close(),
      () => this.marks.close(),
      () => this.#put(null),
      this.choice.subscribe(() => this.requestDraw()),
      this.moment.subscribe(() => this.#turned()),
      this.feed.subscribe("summary", () => this.requestDraw()),
      this.selection.subscribe((what) => what === "lit" && this.#lost()),
    );
    this.choice.writeAddress();
  }

  draw() {
    const { source } = this.data;
    this.tenants.ask(source, this.moment.at, this.choice.by);
    this.panel.draw(this.tenants, this.choice, this.feed.summary?.findings ?? [], (block, at) =>
      pageUrl("live", source, this.moment.at && at, { block }),
    );
  }

  #turned() {
    this.marks.follow();
    this.requestDraw();
  }

  #light() {
    const { ids, leftOut } = this.marks;
    const { whose } = this.choice;
    const more = leftOut ? ` (and ${count(leftOut)} that are not marked)` : "";
    this.#put(whose === null || ids === null ? null : { label: `${labelOf(whose)}${more}`, blocks: ids });
    this.requestDraw();
  }

  // Only what this panel lit up is put out again: a request's blocks stay.
  #put(lit) {
    if (lit === null && (this.lit === null || this.selection.lit !== this.lit)) return;
    this.lit = lit;
    this.selection.light(lit);
  }

  // Something else stands out now, or nothing any more.
  #lost() {
    if (this.lit === null || this.selection.lit === this.lit) return;
    this.lit = null;
    this.choice.letGo();
  }
}

function labelOf(key) {
  const end = key.indexOf(":");
  const [name, beside] = rowName({ kind: key.slice(0, end), name: key.slice(end + 1) });
  const short = name.length > 60 ? `${name.slice(0, 60)}…` : name;
  return beside ? `${beside} ${short}` : short;
}

export const mount = defineLiveComponent("tenants", Tenants);
