"""The JSON of `/api/alerts` and what belongs to it. Only shapes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.analysis.finding import Severity
from kvxray_backend.api_types import Answer, Time

RuleOrigin = Literal["built-in", "file", "page"]


class ToldView(Answer):
    """What one target was told of an alert, or is to be told."""

    target: str = Field(description="Its name.")
    kind: Literal["fired", "over"] = Field(description="fired or over: what it is told.")
    delivered: Time | None = Field(description="When it took it; null: not yet.")
    attempts: int = Field(description="How often it was tried.")
    error: str = Field(description="Why the last try failed; empty: none did.")


class QuietView(Answer):
    """Why nobody is told of an alert just now."""

    by: str = Field(description="Who said so.")
    until: Time | None = Field(description="Until when.")
    note: str = Field(description="What they wrote.")
    link: str = Field(description="Where it can be changed; empty: here.")
    mute_id: str = Field(default="", description="Of a mute of ours; empty: it is a silence of Alertmanager.")


class AlertView(Answer):
    """One alert, active or over."""

    alert: Alert = Field(description="The alert, with its evidence.")
    unknown_since: Time | None = Field(description="Since when nobody can tell whether it goes on; null: it is known.")
    link: str = Field(description="The page at the moment it fired, what is to blame marked; relative to the page.")
    told: list[ToldView] = Field(description="Who was told, and who is still to be.")
    quiet: QuietView | None = Field(description="Why nobody is told now; null: they are.")
    text: str = Field(default="", description="All of it as plain text, to paste elsewhere.")


class PendingView(Answer):
    """A rule whose condition holds, and not long enough yet."""

    rule: str = Field(description="The rule.")
    severity: Severity = Field(description="info, warning or critical.")
    engine: str = Field(description="The engine, or the fleet.")
    since: Time | None = Field(description="Since when it holds.")
    fires_in_s: float = Field(description="Seconds that it must hold yet.")


class TargetView(Answer):
    """Where alerts are sent."""

    name: str = Field(description="Its name.")
    kind: Literal["alertmanager", "webhook"] = Field(description="alertmanager or webhook.")
    address: str = Field(description="Where it is, without what is secret in it.")
    state: Literal["ok", "failing", "unused"] = Field(description="ok, failing, or unused: nothing was sent yet.")
    waiting: int = Field(description="How many notifications wait.")
    error: str = Field(description="Why the last try failed.")
    last_delivered: Time | None = Field(description="When it last took something.")
    next_try: Time | None = Field(description="When it is tried again; null: nothing waits.")


class MuteView(Answer):
    """Nobody is notified of what it names, until it ends."""

    id: str = Field(description="Names it.")
    rule: str = Field(description="The rule; empty: any.")
    engine: str = Field(description="The engine; empty: any.")
    until: Time = Field(description="When it ends.")
    note: str = Field(description="What somebody wrote.")
    created: Time = Field(description="When it began.")


class AlertsView(Answer):
    """Alerts: those that fire the gravest first, then those that are over, the newest first."""

    alerts: list[AlertView] = Field(description="Alerts.")
    num: int = Field(description="How many there are, beyond those that are listed.")
    pending: list[PendingView] = Field(description="What is about to fire.")
    targets: list[TargetView] = Field(description="Where they are sent; none: nowhere.")
    mutes: list[MuteView] = Field(description="Mutes that are not over.")
    can_mute: bool = Field(description="False: an Alertmanager is set, whose silences are shown.")
    looked_at: Time | None = Field(description="When rules were last looked at; null: not yet.")
    not_stored: str = Field(description="How many alerts the database refuses, and why: a sentence; empty: none.")
    num_rules_on: int = Field(description="How many rules are on.")


class ServedView(Answer):
    """How one rule stands for one engine."""

    engine: str = Field(description="The engine, or the fleet.")
    state: Literal["inactive", "pending", "firing", "unknown", "not_observable"] = Field(
        description="inactive, pending, firing; unknown: what it needs is not told just now; not_observable: nothing "
        "that is watched of this engine can tell it."
    )
    why: str = Field(description="Why it is unknown or not observable, and what would change that; else empty.")


class RuleView(Answer):
    """One rule."""

    name: str = Field(description="Its name.")
    topic: str = Field(description="What it is about; `Own` for rules of your own.")
    severity: Severity = Field(description="info, warning or critical.")
    sentence: str = Field(description="What is wrong when it fires.")
    meaning: str = Field(description="What that means, and what comes of it; empty for rules of your own.")
    when: list[str] = Field(description="Its conditions in words: all must hold.")
    for_s: int = Field(description="How long it must hold.")
    keep_firing_s: int = Field(description="How long it goes on firing after it last held.")
    needs: str = Field(description="Who can tell what it needs.")
    do: list[str] = Field(description="What to do, in order.")
    confirm: list[str] = Field(description="How to confirm it here.")
    on_vllm: list[str] = Field(description="What to do on vLLM.")
    on_sglang: list[str] = Field(description="What to do on SGLang.")
    trap: str = Field(description="What a simpler rule gets wrong.")
    origin: RuleOrigin = Field(description="built-in, file or page: where it comes from.")
    is_on: bool = Field(description="Whether it is looked at.")
    text: str = Field(description="Its YAML where it was written on the page; else empty.")
    served: list[ServedView] = Field(description="How it stands for each engine.")


class RulesView(Answer):
    """All rules."""

    rules: list[RuleView] = Field(description="Built-in ones by topic, then your own.")
    problems: list[str] = Field(description="What is wrong with files of rules; empty: nothing.")


class WouldView(Answer):
    """One alert that a rule would have given."""

    engine: str = Field(description="The engine, or the fleet.")
    began: Time = Field(description="When its condition began to hold.")
    fired: Time = Field(description="When it would have fired.")
    ended: Time | None = Field(description="When it would have been over; null: it would fire now.")
    at: str = Field(description="The moment as a page's address takes it.")
    link: str = Field(description="The page at that moment; relative to the page.")
    culprit: str = Field(description="Who or what would have been to blame; empty: nobody is known.")


class TriedEngineView(Answer):
    """What the history of one engine can tell of a rule."""

    engine: str = Field(description="The engine, or the fleet.")
    known_share: float = Field(description="How much of the time it could be told, 0 to 1.")
    why: str = Field(description="Why not all of it; else empty.")


class TrialView(Answer):
    """A rule tried on history."""

    rule: str = Field(description="The rule.")
    sentence: str = Field(description="What came out, one sentence: It would have fired 3 times in the last 7 days.")
    from_: Time = Field(alias="from", description="Where the stretch begins.")
    to: Time = Field(description="Where it ends.")
    fired: list[WouldView] = Field(description="The alerts it would have given, the newest first; at most 200.")
    num_fired: int = Field(description="How many there would have been.")
    engines: list[TriedEngineView] = Field(description="What of each engine is known of that time.")


class LinkView(Answer):
    """Where the page shows an engine at a moment."""

    url: str = Field(description="The address, whole where KVXRAY_PUBLIC_URL is set, else relative to the server.")
    source: str = Field(description="The source that was found.")
    at: str = Field(description="The moment; `live`: now.")
