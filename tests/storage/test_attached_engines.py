"""Engines attached while the server ran are there again in their order, whole, until they are forgotten."""

from __future__ import annotations

from kvxray_storage.attached_engines import AttachedEngine, attached_engines, forget_attached, keep_attached
from kvxray_storage.database import open_database

EAST = AttachedEngine("east", '{"name": "east"}', 20)
WEST = AttachedEngine("west", '{"name": "west", "labels": {"pod": "é"}}', 10)


def test_they_are_there_after_the_database_was_closed(make_database_url):
    url = make_database_url()
    database = open_database(url)
    keep_attached(database, EAST)
    keep_attached(database, WEST)
    database.close()
    database = open_database(url)
    try:
        assert attached_engines(database) == [WEST, EAST]
    finally:
        database.close()


def test_one_of_the_same_name_takes_its_place(database):
    keep_attached(database, EAST)
    changed = AttachedEngine("east", '{"name": "east", "ranks": 2}', 30)
    keep_attached(database, changed)
    assert attached_engines(database) == [changed]


def test_what_was_forgotten_is_gone_and_what_never_was_is_said_to_be_none(database):
    keep_attached(database, EAST)
    assert forget_attached(database, "east")
    assert not forget_attached(database, "east")
    assert attached_engines(database) == []
