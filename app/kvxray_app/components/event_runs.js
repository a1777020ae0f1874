// Runs of events: what one action did to many blocks is told block by block, and read as one line.

/**
 * Fold events (newest first) into runs of one kind, cause and request: `[{key, events, cut}]`, newest first. `cut`: the
 * feed may have left out more of them. A run's key is the seq of its oldest event: it lasts while the run grows. `goesOn`:
 * whether an event is of the run of another.
 */
export function runsOf(events, goesOn = isSameAction) {
  const runs = [];
  let run = null;
  for (const event of events) {
    if (!run || !goesOn(run.events[0], event) || run.cut) runs.push((run = { events: [], cut: false }));
    run.events.push(event);
    run.cut = Boolean(event.cut);
  }
  for (const each of runs) each.key = each.events[each.events.length - 1].seq;
  return runs;
}

const isSameAction = (first, event) =>
  event.block_id != null &&
  event.kind === first.kind &&
  event.cause === first.cause &&
  event.request_id === first.request_id;
