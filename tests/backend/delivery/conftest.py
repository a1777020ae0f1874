"""Databases of both kinds, receivers, and the whole of delivery over them."""

from __future__ import annotations

import pytest
from kvxray_backend.delivery import lane

from tests.backend.delivery.receiver import Receiver
from tests.backend.delivery.sent_alerts import Sending
from tests.storage.conftest import database_kind, make_database_url

__all__ = ["database_kind", "make_database_url"]


@pytest.fixture
def quick(monkeypatch):
    """Nobody waits for company, nor long for another try."""
    monkeypatch.setattr(lane, "GROUP_WAIT_NS", 0)
    monkeypatch.setattr(lane, "FIRST_BACKOFF_S", 0.02)
    monkeypatch.setattr(lane, "LONGEST_BACKOFF_S", 0.1)


@pytest.fixture
def receiver():
    receiver = Receiver()
    receiver.start()
    yield receiver
    receiver.stop()


@pytest.fixture
def sending(tmp_path):
    """Makes deliveries over one database after another; closes them in the end."""
    opened = []

    def make(*hooks, url="", **settings):
        opened.append(Sending(url or f"sqlite:///{tmp_path / 'log.db'}", hooks, **settings))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
