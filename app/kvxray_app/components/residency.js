// The page of an engine that is watched from outside: how much to trust it, its figures, the map of cached prefixes, where
// they are, what is known of one, what happened last, and what can be known at all.

import { CoveragePanel } from "./coverage_panel.js";
import { el, setAttribute } from "./elements.js";
import { onEscape } from "./escape_key.js";
import { momentFor } from "./moment.js";
import { defineComponent } from "./mount.js";
import { pageUrl } from "./overview_links.js";
import { ResidencyEvents } from "./residency_events.js";
import { ResidencyFeed } from "./residency_feed.js";
import { ResidencyFigures } from "./residency_figures.js";
import { ResidencyHead } from "./residency_head.js";
import { ResidencyInspector } from "./residency_inspector.js";
import { ResidencyMap } from "./residency_map.js";
import { ResidencyMoment } from "./residency_moment.js";
import { ResidencyPlaces } from "./residency_places.js";
import { ResidencyTenants } from "./residency_tenants.js";
import { residencyViewFor } from "./residency_view.js";
import { applyTheme } from "./theme.js";
import { Tip } from "./tip.js";

class ResidencyScreen {
  constructor(root, data, palette) {
    const { source, home, kind, words, residency } = data;
    Object.assign(this, { root, palette, isOfHashes: kind === "hashes", certainties: words.certainties });
    this.tip = new Tip(root);
    this.view = residencyViewFor(source);
    this.moment = momentFor(source, home);
    this.requestDraw = () => this.#requestDraw();
    this.feed = new ResidencyFeed(source, this.moment, this.isOfHashes, () => this.requestDraw());
    this.head = new ResidencyHead(residency, words.health, this.tip, (at) => this.moment.go(at));
    this.head.onToggle = this.requestDraw;
    this.figures = new ResidencyFigures(residency, words.certainties, this.tip);
    this.coverage = new CoveragePanel(words.certainties, this.tip, (id) => this.head.show(id, () => this.draw()));
    this.parts = this.isOfHashes ? this.#partsOfHashes() : null;
    const { parts } = this;
    const signals = el("a", { class: "link", href: pageUrl("signals", source) }, "All its signals");
    const attach = el("a", { class: "link", href: pageUrl("attach", source) }, "Attach its events");
    this.root.append(
      this.head.node,
      ...(parts ? [parts.moment.node] : []),
      this.figures.node,
      parts
        ? el("div", { class: "wide-row" }, parts.map.node, parts.inspector.node)
        : el("p", { class: "how panel" }, `${residency.attach} `, attach, "  ·  ", signals),
      ...(parts ? [parts.tenants.node] : []),
      this.figures.differences,
      el(
        "div",
        { class: "low-row" },
        parts ? el("div", { class: "told" }, parts.places.node, parts.events.node) : null,
        this.coverage.node,
      ),
    );
    this.exits = [this.view.subscribe(this.requestDraw), onEscape(() => this.#letGo())];
    this.#hook();
    this.view.writeAddress();
    this.moment.writeAddress();
    this.requestDraw();
  }

  close() {
    cancelAnimationFrame(this.drawing);
    for (const exit of this.exits) exit();
    this.feed.close();
    this.moment.stopWriting();
    this.parts?.map.close();
    this.parts?.tenants.close();
    this.parts?.inspector.shut();
    this.parts?.moment.close();
    this.tip.close();
    this.root.replaceChildren();
  }

  retheme(palette) {
    this.palette = palette;
    this.requestDraw();
  }

  draw() {
    const { feed, parts } = this;
    const { summary } = feed;
    const isOld = Boolean(feed.failed) || (summary?.state === "stale" && !feed.isPast);
    setAttribute(this.root, "data-old", isOld);
    setAttribute(this.root, "data-past", feed.isPast);
    setAttribute(this.root, "data-kind", this.isOfHashes ? "hashes" : "metrics");
    this.head.draw(feed);
    this.figures.draw(summary, isOld);
    this.coverage.draw(feed.coverage);
    if (!parts) return;
    parts.inspector.follow();
    for (const part of [parts.moment, parts.map, parts.inspector, parts.tenants, parts.events]) part.draw();
    parts.places.draw(summary);
  }

  #partsOfHashes() {
    const { feed, view, moment, tip } = this;
    return {
      moment: new ResidencyMoment(feed, this.requestDraw),
      tenants: new ResidencyTenants(this),
      map: new ResidencyMap(this),
      inspector: new ResidencyInspector(this),
      places: new ResidencyPlaces(tip),
      events: new ResidencyEvents(feed, view, moment),
    };
  }

  #letGo() {
    this.view.letGo();
    this.parts?.tenants.choice.letGo();
  }

  #requestDraw() {
    this.drawing ||= requestAnimationFrame(() => {
      this.drawing = 0;
      this.draw();
    });
  }

  // For browser tests: where a cell is on the screen, and what is drawn.
  #hook() {
    const hook = {
      centreOf: (ordinal) => {
        const { frame, stage } = this.parts.map;
        const at = frame?.ordinal.indexOf(ordinal) ?? -1;
        return at < 0 || !stage.layout ? null : stage.centreOf(at);
      },
      ofTenant: () => this.parts?.map.numOfTenant ?? null,
      marked: () => this.parts?.map.marked.cells(this.parts.map.frame).length ?? null,
      count: () => this.parts?.map.frame?.count ?? null,
    };
    window.__kvxray ??= {};
    window.__kvxray.residency = hook;
    this.exits.push(() => window.__kvxray.residency === hook && delete window.__kvxray.residency);
  }
}

export const mount = defineComponent("residency", (component) => {
  let source = component.data.source;
  const open = ({ parentElement, data }) =>
    new ResidencyScreen(parentElement.querySelector(".kx"), data, applyTheme(parentElement, data.palettes));
  let screen = open(component);
  return {
    update(next) {
      if (next.data.source === source) return screen.retheme(applyTheme(next.parentElement, next.data.palettes));
      screen.close();
      source = next.data.source;
      screen = open(next);
    },
    destroy: () => screen.close(),
  };
});
