"""What all watched engines share: the event log, the key for digests, turns to ask for replay."""

from __future__ import annotations

from kvxray_engine.clock import Clock
from kvxray_storage.database import Database
from kvxray_storage.event_log import EventLog

from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.privacy import NameFilter


class Surroundings:
    """`digest_key`: of the database, so that what engines told compares across engines and restarts."""

    def __init__(self, database: Database, log: EventLog, clock: Clock) -> None:
        self.database = database
        self.log = log
        self.clock = clock
        self.digest_key = database.digest_key()
        self.names = NameFilter(self.digest_key)
        self.turns = ReplayTurns()
