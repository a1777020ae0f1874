// The overview: is my cache healthy and, if not, is it KV, compute, queue or transfer. All engines as a table, the
// worst first, where there are several; below it the verdict on one and what it rests on.

import { el, setAttribute, setText } from "./elements.js";
import { NO_DATA, timeOfDay } from "./format.js";
import { whenWords } from "./moment_words.js";
import { defineComponent } from "./mount.js";
import { AlertsStrip } from "./overview_alerts.js";
import { OverviewFeed } from "./overview_feed.js";
import { pageUrl } from "./overview_links.js";
import { FigurePanel, FindingsPanel, HealthPanel, UsagePanel } from "./overview_panels.js";
import { EnginesTable, roleOf } from "./overview_table.js";
import { VerdictCard } from "./overview_verdict.js";
import { tenantChoiceFor } from "./tenants_choice.js";
import { TenantsFeed } from "./tenants_feed.js";
import { TenantsPanel } from "./tenants_panel.js";
import { applyTheme } from "./theme.js";
import { Tip } from "./tip.js";

const MARKS = "Opens the map with its blocks marked.";

class Overview {
  /** `keep(name)`: for the other pages, what somebody chose. */
  constructor(root, { source, overview: words, words: glossary }, keep) {
    this.keep = keep;
    this.root = root;
    this.chosen = source ?? null;
    this.tip = new Tip(root);
    const { certainties } = glossary;
    this.note = el("div", { class: "trouble", role: "status", hidden: true });
    this.loading = el("div", { class: "note panel" }, el("b", {}, "Looking at the engines"), "A moment, please.");
    this.alerts = new AlertsStrip(words.titles.alerts);
    this.table = new EnginesTable(words, (name) => this.#choose(name));
    const map = el("a", { class: "link" }, "Open the map");
    this.title = el("div", { class: "whose" }, el("b"), el("span", { class: "muted" }), map);
    this.verdict = new VerdictCard(words, certainties, this.tip);
    this.panels = words.panels.map(
      (panel) => new (panel.key === "usage" ? UsagePanel : FigurePanel)(panel, certainties, this.tip),
    );
    this.engine = null; // whose panels are shown
    const leads = { hrefOf: (key) => this.#mapOf({ whose: key }), marks: MARKS };
    this.tenants = new TenantsPanel(this.tip, certainties, leads, words.titles.tenants);
    this.tenants.node.classList.add("card", "whole");
    this.shares = new TenantsFeed(() => this.engine && this.#drawTenants());
    this.fleet = new FigurePanel(words.fleet, certainties, this.tip);
    this.uneven = el("p", { class: "uneven", hidden: true });
    this.fleet.body.before(this.uneven);
    this.health = new HealthPanel(words.titles.health, this.tip, glossary);
    this.findings = new FindingsPanel("findings", words.titles.findings, "Nothing is found to be wrong.");
    this.lately = new FindingsPanel("lately", words.titles.lately, "Nothing was found lately that is over now.");
    this.cards = el(
      "div",
      { class: "cards" },
      ...this.panels.map(({ node }) => node),
      this.tenants.node,
      this.fleet.node,
      this.health.node,
      this.findings.node,
      this.lately.node,
    );
    const parts = [this.alerts.node, this.table.node, this.title, this.verdict.node, this.cards];
    this.body = el("div", { class: "overview", hidden: true }, ...parts);
    const at = new URLSearchParams(location.search).get("at");
    const moment = at === "live" ? null : at;
    if (moment) root.append(pastLine(moment));
    root.append(this.note, this.loading, this.body);
    this.feed = new OverviewFeed(this.chosen, moment, () => this.#draw());
  }

  close() {
    this.feed.close();
    this.shares.close();
    this.tip.close();
    this.root.replaceChildren();
  }

  #choose(name) {
    this.chosen = name;
    const url = new URL(location.href);
    url.searchParams.set("source", name);
    history.replaceState(history.state, "", url);
    this.keep(name);
    this.#draw();
  }

  #draw() {
    const { told, failed, failedSince } = this.feed;
    setAttribute(this.note, "hidden", !failed);
    const shown = timeOfDay(new Date(failedSince).toISOString());
    setText(this.note, failed && told ? `${failed} What is shown is of ${shown}. Trying again.` : failed);
    setAttribute(this.body, "data-old", Boolean(failed));
    if (!told) {
      setAttribute(this.loading, "hidden", Boolean(failed));
      return;
    }
    const { engines, fleet } = told;
    const engine = engines.find(({ source }) => source === this.chosen) ?? engines[0];
    setAttribute(this.body, "hidden", !engine);
    setAttribute(this.loading, "hidden", Boolean(engine));
    if (!engine) {
      this.loading.replaceChildren(el("b", {}, "No engine to follow yet"), "Start kvxray with one.");
      return;
    }
    this.alerts.draw(told);
    setAttribute(this.table.node, "hidden", engines.length < 2);
    this.table.draw(engines, engine.source);
    this.#drawEngine(engine);
    this.#drawFleet(fleet, engines, engine);
  }

  #drawEngine(engine) {
    const [name, about, link] = this.title.children;
    setText(name, engine.source);
    setText(about, aboutEngine(engine));
    setAttribute(link, "href", pageUrl("live", engine.source, engine.at));
    setAttribute(this.cards, "data-old", engine.state === "stale");
    this.verdict.draw(engine);
    for (const panel of this.panels) {
      const page = pageOf(panel.panel, engine);
      panel.draw(engine.figures, engine.findings, page, pageUrl(page, engine.source, engine.at));
    }
    this.panels.find((panel) => panel.drawPool).drawPool(engine);
    this.engine = engine;
    this.#drawTenants();
    this.health.draw(engine);
    this.findings.draw(engine.findings, engine.source, engine.num_findings, engine.looked_at);
    this.lately.draw(engine.lately, engine.source);
  }

  // Whose the cache of the chosen engine is; metrics name no tenants.
  #drawTenants() {
    const { source, at, kind, findings } = this.engine;
    const choice = tenantChoiceFor(source);
    if (kind === "metrics") this.shares.decline("The engine is known by its metrics alone: they name no tenants.");
    else this.shares.ask(source, at === "live" ? null : at, choice.by);
    const setBy = (by) => (choice.setBy(by), this.#drawTenants());
    this.tenants.draw(this.shares, { by: choice.by, whose: null, setBy }, findings, (block, then) =>
      this.#mapOf({ block }, then),
    );
  }

  // The map of the engine shown, at its moment or another.
  #mapOf(query, then = this.engine.at) {
    const { by } = tenantChoiceFor(this.engine.source);
    return pageUrl("live", this.engine.source, then, { ...query, ...(by ? { by } : {}) });
  }

  // What takes a router to tell is told by a router, where one is watched; else it is not observable.
  #drawFleet(fleet, engines, engine) {
    const told = engines.map(({ figures }) => figures.affinity_lost).filter((one) => one?.certainty === "derived");
    const affinity_lost = told.find(({ value }) => value != null) ?? told[0] ?? engine.figures.affinity_lost;
    this.fleet.draw({ ...fleet.figures, affinity_lost }, [], null, null);
    setText(this.uneven, fleet.sentence);
    setAttribute(this.uneven, "hidden", !fleet.sentence);
  }
}

// What metrics tell of an engine of others is on its page of signals; what its hashes tell, on the live page.
function pageOf({ link }, { kind }) {
  if (kind === "metrics" || (kind === "hashes" && link !== "live")) return "signals";
  return link;
}

// The page itself never turns to another moment: its address does.
function pastLine(moment) {
  const url = new URL(location.href);
  url.searchParams.delete("at");
  const back = el("a", { class: "link", href: url.href }, "Back to the present");
  return el("p", { class: "past" }, el("b", {}, "Past"), ` Everything is as it was at ${moment}. `, back);
}

function aboutEngine(engine) {
  const { model, labels, media, at, time, state } = engine;
  const when = at === "live" && state !== "past" ? "" : `as of ${time ? whenWords(time, false) : NO_DATA}`;
  return [model, roleOf(engine), labels.node, media.join(", "), when].filter(Boolean).join("  ·  ");
}

export const mount = defineComponent("overview", ({ parentElement, data, setStateValue }) => {
  applyTheme(parentElement, data.palettes);
  const view = new Overview(parentElement.querySelector(".kx"), data, (name) => setStateValue("source", name));
  return {
    update: (next) => applyTheme(next.parentElement, next.data.palettes),
    destroy: () => view.close(),
  };
});
