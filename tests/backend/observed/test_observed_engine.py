"""An engine is followed over real sockets, whatever becomes of it and of its messages."""

from __future__ import annotations

from pathlib import Path

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.observed.watching import kinds, num_cached, spec_of, stored_in, until, watching


def test_what_a_publisher_tells_is_cached_as_soon_as_it_is_told(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig() as rig, watching(*stored, spec_of(rig)) as engine:
        assert (engine.connection, engine.ranks) == ("waiting", {})
        rig.wait_for_subscriber()
        rig.publish(20)
        until(lambda: num_cached(engine) == 20)
        until(lambda: engine.connection == "connected")
        assert kinds(engine) == []
        assert engine.ranks["e"].followed.confidence == "exact"


def test_who_comes_late_says_what_is_not_known(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig() as rig:
        rig.publish(5)
        with watching(*stored, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(5)
            until(lambda: num_cached(engine) == 5)
            until(lambda: kinds(engine) == ["joined_midstream"])
            assert engine.ranks["e"].followed.confidence == "degraded"


def test_who_comes_late_and_may_ask_knows_everything(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig() as rig:
        rig.publish(5)
        with watching(*stored, spec_of(rig, replay=True)) as engine:
            rig.wait_for_subscriber()
            rig.publish(5)
            until(lambda: num_cached(engine) == 10)
            assert engine.ranks["e"].followed.confidence == "exact"
