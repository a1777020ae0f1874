"""Rules over what kvxray finds in events, or in events and metrics together: no Prometheus can tell these alone."""

from __future__ import annotations

from typing import Final

from kvxray_backend.alerts.expression import Any, Compare, Constant, Found, Minus, Over, Total
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rules_vllm import MINUTE

STREAM: Final[tuple[Rule, ...]] = (
    Rule(
        "StreamStale",
        "warning",
        Found(("stale", "stale_stream"), least="warning"),
        for_s=0,
        keep_firing_s=MINUTE,
        served_by=("events", "blocks"),
        sentence="The engine works and none of its events reach kvxray: what is shown is its last known state.",
        do=(
            "Ask whether it was restarted with events off, or on another port or topic.",
            "Try the connection on Attach, which says what it hears.",
            "Look for a firewall or a proxy that drops idle connections.",
        ),
        trap="An idle engine is silent by design, so silence is an alarm only where its metrics, or the heartbeats of "
        "our own engine, say that it should speak.",
    ),
    Rule(
        "ReplayGap",
        "warning",
        # What our own engine's replay has not is lost for good: a snapshot mends the state, and never the history.
        Any((Found(("seq_gap",), least="warning"), Found(("gap",), within_s=15 * MINUTE))),
        for_s=MINUTE,
        keep_firing_s=5 * MINUTE,
        served_by=("events", "blocks"),
        sentence="Batches of events were lost and replay did not bring them: what is cached is known in part.",
        do=(
            "Give the engine a replay endpoint (`replay_endpoint`), or a larger buffer.",
            "Raise its high-water mark (`hwm`), or bring kvxray nearer to it.",
            "See how much was lost in the finding; figures that it spoils are marked.",
        ),
        trap="A gap that replay closes within the minute is no news, and every lossy network makes some. One that a "
        "snapshot closes is: the state is right again within a second, and what happened in between is lost.",
    ),
    Rule(
        "EventsUnreadable",
        "warning",
        Found(("unknown_or_partial_event",), least="warning", within_s=10 * MINUTE),
        for_s=0,
        keep_firing_s=10 * MINUTE,
        served_by=("events", "blocks"),
        sentence="The engine tells something that kvxray cannot read: its picture lacks that part.",
        do=(
            "Ask whether the engine was upgraded: the finding names the events and fields.",
            "Record a minute of it (`kvxray record`) and report it.",
        ),
        trap="A stray message at a port that something scans is no message of the engine: it is counted, and no reason "
        "to be woken. Fields that are new do no harm.",
    ),
    Rule(
        "EventsDropped",
        "warning",
        Found(("drops",)),
        for_s=0,
        keep_firing_s=5 * MINUTE,
        served_by=("blocks",),
        sentence="The engine's recorder dropped events so as not to slow the engine down.",
        do=("See the engine's load: its publisher had no time.", "Wait for the snapshot that follows by itself."),
        trap="No replay can bring these: they never became messages.",
    ),
    Rule(
        "EventsNotStored",
        "critical",
        Found(("storage",)),
        for_s=MINUTE,
        served_by=("events", "blocks"),
        sentence="Events cannot be stored: the page is live, and its history stands still.",
        do=(
            "See `kvxray storage stats`, and room and rights of the disk.",
            "Nothing that was acknowledged is lost; what comes meanwhile waits, within bounds.",
        ),
        trap="A page that is live looks well; only a question about the past would show it.",
    ),
)

BLOCKS: Final[tuple[Rule, ...]] = (
    Rule(
        "LeakNamed",
        "warning",
        Found(("leak",)),
        for_s=0,
        keep_firing_s=MINUTE,
        served_by=("blocks",),
        sentence="Requests that ended still hold blocks; the finding names them.",
        do=(
            "Open the finding: which request, how it ended, which blocks nobody living needs.",
            "Look for the same end (abort, failure) in other findings: the path that forgets to free.",
            "Restart in a quiet hour: blocks that leaked come back in no other way.",
        ),
        trap="Blocks of an ended request that others share are no leak, neither are leases before their deadline, nor "
        "the moment between a request's end and the freeing of its blocks.",
    ),
    Rule(
        "PinNeverReleased",
        "warning",
        Found(("stuck_pin",)),
        for_s=0,
        keep_firing_s=MINUTE,
        served_by=("blocks",),
        sentence="Somebody who is no request keeps blocks that no request uses; the finding names the pin.",
        do=(
            "Open the finding: which pin, which blocks, and since when nobody has used them.",
            "Ask whoever pins: a session that ended, a transfer that was given up, a prompt that is out of use.",
            "Let go of the pin; where nobody knows of it any more, restart the engine in a quiet hour.",
        ),
        trap="A pin may be right for long: a system prompt that is to stay is used by those who come. So only blocks "
        "count that no request has wanted for five minutes, in which fifty came: in a quiet night nothing is told.",
    ),
    Rule(
        "EvictionRegret",
        "warning",
        Found(("thrash",), least="warning"),
        for_s=10 * MINUTE,
        keep_firing_s=5 * MINUTE,
        served_by=("events", "blocks"),
        sentence="What is evicted is stored again within a minute, again and again: what is in use does not fit.",
        do=(
            "Open the finding: which blocks return, how often, and what they cost.",
            "Make more room, or send the sessions that share a beginning to one engine.",
            "Admit fewer requests at once: a long one in between pushes out what the next one needs.",
        ),
        trap="Evictions alone are the work of a full cache: most of what goes is never asked for again. Under load it "
        "also throws away too early now and then; three of ten evictions for nothing is what does not pay.",
    ),
    Rule(
        "RequestNeverGetsOn",
        "warning",
        Found(("preemption_loop",)),
        for_s=0,
        keep_firing_s=5 * MINUTE,
        served_by=("blocks",),
        sentence="A request is preempted again and again without a token in between.",
        do=(
            "Open the finding: which request, and who got its blocks.",
            "Admit less at once, or bound the length of prompts: this one may need more than ever is free.",
            "See whether priorities starve it.",
        ),
        trap="Preemptions as such are normal under load; what counts is whether the request got on in between.",
    ),
    Rule(
        "AdmissionStuck",
        "critical",
        Found(("admission_stuck",)),
        for_s=0,
        served_by=("blocks",),
        sentence="Requests wait and nothing runs, though the engine lives.",
        do=(
            "Open the finding: whether blocks are what is missing, and who holds them.",
            "Take stacks of the engine (`py-spy dump --pid …`) before a restart destroys them.",
            "See LeakNamed: blocks held by requests that ended are the usual reason.",
        ),
        trap="A queue while others run is load, not a fault.",
    ),
    Rule(
        "AuditResidual",
        "critical",
        Found(("audit", "ref_mismatch", "ref_underflow", "double_free"), within_s=15 * MINUTE),
        for_s=0,
        served_by=("blocks",),
        sentence="The engine's bookkeeping of blocks does not add up: its own totals and its events differ, "
        "references and holders do, or a count fell below zero.",
        do=(
            "Export the stretch before it (`kvxray storage export`): the event that broke the law is in the finding.",
            "Treat answers since then as suspect: a block may have two owners.",
            "Restart the engine.",
        ),
        trap="The sum of used and free blocks may be right while single blocks are wrong.",
    ),
    Rule(
        "StaleHash",
        "critical",
        Found(("stale_hash", "stale_hit"), within_s=15 * MINUTE),
        for_s=0,
        served_by=("blocks",),
        sentence="Blocks were given out while the prefix cache still leads to them: prompts that hit them read what is "
        "not theirs, and answers may be wrong.",
        do=(
            "Clear the prefix cache of the engine at once: what it leads to is not what it says.",
            "Treat answers since the first finding as suspect, those of requests that `stale_hit` names before others.",
            "Export the stretch (`kvxray storage export`) and report it: the finding names block, hash and event.",
        ),
        trap="All totals may agree, and every count be right: the cache answers, hits look healthy, the text is wrong.",
    ),
    Rule(
        "OverCapacity",
        "warning",
        Found(("resident_over_capacity",)),
        for_s=5 * MINUTE,
        served_by=("events",),
        sentence="More is told to be cached than there are blocks: removals were lost, or hits are told as stores.",
        do=(
            "See whether batches are missing (ReplayGap): lost removals look like this.",
            "Say what its repeated stores mean (`store_semantics`), if you know.",
            "Attach it again: the picture begins anew.",
        ),
        trap="Engines that keep a hash in several blocks rightly tell more copies than hashes; copies are what counts.",
    ),
    Rule(
        "CrossTenantHit",
        "critical",
        Found(("hash_namespace_collision", "cross_tenant_prefix"), within_s=15 * MINUTE),
        for_s=0,
        served_by=("events", "blocks"),
        sentence="One hash was stored under two salts, adapters or parents, or requests of two salts hold one block: a "
        "request may read what is another's.",
        do=(
            "Ask whether salts are meant to part tenants here (`cache_salt`): then this must not be.",
            "Use a hash that cannot be made to collide (`--prefix-caching-hash-algo sha256`).",
            "Clear the cache of the engine, and keep the recording.",
        ),
        trap="Tenants that share a public system prompt without salts share its blocks on purpose.",
    ),
    Rule(
        "SeedMismatch",
        "warning",
        Found(("hash_seed_mismatch",)),
        for_s=5 * MINUTE,
        served_by=("events",),
        sentence="Engines hash the same tokens differently: none can use what another has, no router can match them.",
        do=(
            "Give all engines one `PYTHONHASHSEED`, or a hash without a seed (`sha256_cbor`).",
            "Give all engines one block size and one tokenizer.",
        ),
        trap="Different salts or adapters give different hashes on purpose; only same tokens under same names count.",
    ),
    Rule(
        "PrefixCachingOff",
        "warning",
        Found(("config",), least="warning"),
        for_s=5 * MINUTE,
        served_by=("vllm", "sglang", "trtllm", "events"),
        sentence="The prefix cache can bring nothing as the engine is configured; the finding says why.",
        do=(
            "Read the reason: switched off, blocks longer than prompts, a model whose states are not cached.",
            "Change the option that it names, and see the hit rate rise from 0.",
        ),
        trap="A hit rate of 0 may also be a workload that shares nothing: this looks at the configuration.",
    ),
    Rule(
        "MetricsContradiction",
        "warning",
        Found(("metrics_contradiction", "conservation_violation")),
        for_s=5 * MINUTE,
        served_by=("vllm", "sglang", "trtllm", "dynamo", "lmcache", "events"),
        sentence="Two numbers that the engine tells cannot both be so: other rules may rest on the wrong one.",
        do=(
            "Open the finding: which two, and since when.",
            "Ask whether two engines share one address, or one name in your Prometheus.",
        ),
        trap="Numbers of different moments differ a little under load, and both are right.",
    ),
)

ROUTER: Final[tuple[Rule, ...]] = (
    Rule(
        "RouterAffinityLost",
        "warning",
        Compare(
            Minus(
                Constant(1),
                Over(
                    Total("router_predicted_tokens", 30 * MINUTE),
                    Total("router_best_tokens", 30 * MINUTE),
                    more_than=50_000,
                ),
            ),
            ">",
            Constant(0.2),
            clear=Constant(0.15),
        ),
        for_s=15 * MINUTE,
        served_by=("router",),
        sentence="The router sends requests away from where their prefix is: more than a fifth of the cached tokens "
        "are at another engine.",
        do=(
            "Compare the weights of prefix, queue and usage in its scoring.",
            "See whether one engine is full (KVFleetSkew): then it is right to send elsewhere.",
            "See whether its index follows all engines: subscribers and reconnects on Signals.",
        ),
        trap="A low hit rate says nothing about the router: what no engine has, none can hit. So the best engine's "
        "share is what it is measured by.",
    ),
)
