// What all components of a page look at: the blocks, the summary and how much to trust them, at the moment that the
// page is at. Whoever needs it first starts it, the last one to go stops it. Two providers fill it, one at a time:
// the live socket, and the past over HTTP.
//
// For browser tests window.__kvxray = {counts(): {state: blocks}, seq(), epoch(), at(): moment shown or null for the
// present, sockets(): open or opening sockets of this page, status(), map: {cellCentre(block): {x, y} in page
// coordinates, part(): what is in sight, orders(): how many orders by prefix were told, onPaint(listener): called with the time of the newest event of each picture},
// beside(): counts of the second moment, onTheWay(): whether another moment was asked for than the one shown} - map is
// set by block_map.js, time by time_bar.js.

import { LiveFeed, OPEN_SOCKETS } from "./live_feed.js";
import { Beside, momentFor } from "./moment.js";
import { PastFeed } from "./past_feed.js";

const feeds = new Map();
const besides = new Map();

/** Take part in the feed of a source. Call `release()` on the result when done: `{feed, release}`. */
export function openFeed(source, home) {
  return join(feeds, source, () => new Feed(source, momentFor(source, home)));
}

/** Take part in the feed of the second moment of a source's page. */
export function openBeside(source) {
  return join(besides, source, () => new Feed(source, new Beside(momentFor(source))));
}

function join(known, source, make) {
  const key = source ?? "";
  if (!known.has(key)) known.set(key, make());
  const feed = known.get(key);
  feed.enter();
  let held = true;
  return {
    feed,
    release() {
      if (held) feed.leave();
      held = false;
    },
  };
}

class Feed {
  constructor(source, moment) {
    this.source = source;
    this.moment = moment;
    this.table = null;
    this.summary = null;
    this.status = { phase: "connecting", since: Date.now(), reason: "" };
    this.noPicture = ""; // why the last question for a snapshot brought none
    this.changedAt = 0; // unix seconds of the event that the table last changed by; 0: by none
    this.users = 0;
    this.live = new LiveFeed(this);
    this.past = new PastFeed(this);
    this.provider = null;
    this.listeners = { blocks: new Set(), summary: new Set(), status: new Set() };
  }

  get isPast() {
    return this.moment.at !== null;
  }

  /** The figures of the last two minutes before what is shown. */
  get figures() {
    return (this.isPast ? this.past : this.live).figures;
  }

  /** What to ask a REST route, so that it tells of the moment shown. */
  query(more = {}) {
    return { source: this.source, at: this.isPast ? (this.past.shown ?? this.moment.at) : undefined, ...more };
  }

  /** The time, in ms since 1970, at which the engine is that the page shows, by its own clock; NaN where it told none. */
  now() {
    const { engine_time: told, time } = this.summary?.state ?? {};
    return Date.parse(this.isPast ? time : told);
  }

  /** Listen: "blocks" (ids, turned) - both null: all changed; "summary" (summary); "status" (status). Returns the way out. */
  subscribe(kind, listener) {
    this.listeners[kind].add(listener);
    return () => this.listeners[kind].delete(listener);
  }

  enter() {
    if (++this.users > 1) return;
    this.exit = this.moment.subscribe(() => this.#turn());
    this.moment.writeAddress();
    this.#turn();
  }

  leave() {
    if (--this.users > 0) return;
    this.exit();
    this.moment.stopWriting();
    this.provider.stop();
    this.provider = null;
  }

  setStatus(phase, reason = "", retryAt = 0) {
    const before = this.status;
    if (before.phase === phase && before.reason === reason && before.retryAt === retryAt) return;
    const since = before.phase === phase ? before.since : Date.now();
    this.status = { phase, reason, retryAt, since };
    this.emit("status", this.status);
  }

  emit(kind, ...values) {
    for (const listener of [...this.listeners[kind]]) {
      try {
        listener(...values);
      } catch (error) {
        console.error("kvxray: a component failed", error);
      }
    }
  }

  // Whoever was told of the same turn before may have let go of this feed because of it.
  #turn() {
    if (!this.users) return;
    const wanted = this.isPast ? this.past : this.live;
    if (wanted === this.provider) {
      wanted.turn();
      return;
    }
    this.provider?.stop();
    this.provider = wanted;
    wanted.start();
  }
}

const firstOf = (known) => [...known.values()].find((feed) => feed.users > 0) ?? null;
const firstFeed = () => firstOf(feeds);
const isOnTheWay = (feed) => Boolean(feed?.isPast && feed.past.told !== feed.moment.at);

window.__kvxray = Object.assign(window.__kvxray ?? {}, {
  counts: () => firstFeed()?.table?.countsByName() ?? null,
  leaked: () => firstFeed()?.table?.leaked ?? null,
  seq: () => (firstFeed()?.table ? Math.floor(firstFeed().table.seq) : null),
  epoch: () => firstFeed()?.table?.epoch ?? null,
  at: () => firstFeed()?.query().at ?? null,
  status: () => firstFeed()?.status.phase ?? null,
  onTheWay: () => isOnTheWay(firstFeed()),
  sockets: () => OPEN_SOCKETS.size,
  beside: () => firstOf(besides)?.table?.countsByName() ?? null,
});
