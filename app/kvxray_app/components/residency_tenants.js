// Whose the cached prefixes are: the panel of tenants beside their map, and the hashes of the tenant that is marked on it.

import { pageUrl } from "./overview_links.js";
import { tenantChoiceFor } from "./tenants_choice.js";
import { TenantsFeed } from "./tenants_feed.js";
import { TenantMarks } from "./tenants_marks.js";
import { TenantsPanel } from "./tenants_panel.js";

const MARKS = "Press to mark its blocks on the map.";

export class ResidencyTenants {
  /** `screen`: {feed, moment, tip, certainties, requestDraw()}. */
  constructor({ feed, moment, tip, certainties, requestDraw }) {
    Object.assign(this, { feed, moment, requestDraw });
    this.choice = tenantChoiceFor(feed.source);
    this.panel = new TenantsPanel(tip, certainties, { toggle: (key) => this.choice.toggle(key), marks: MARKS });
    this.node = this.panel.node;
    this.shares = new TenantsFeed(() => requestDraw());
    this.marks = new TenantMarks(this.choice, () => feed.query(), () => this.#took());
    this.ordinals = null; // of the hashes that are marked, null: none
    this.exits = [this.choice.subscribe(() => requestDraw()), moment.subscribe(() => this.marks.follow())];
    this.choice.writeAddress();
  }

  close() {
    for (const exit of this.exits) exit();
    this.shares.close();
    this.marks.close();
  }

  draw() {
    const { source, summary } = this.feed;
    this.shares.ask(source, this.moment.at, this.choice.by);
    this.panel.draw(this.shares, this.choice, summary?.findings ?? [], (block, at) => pageUrl("live", source, at, { block }));
  }

  #took() {
    this.ordinals = this.marks.ids && new Set(this.marks.ids);
    this.requestDraw();
  }
}
