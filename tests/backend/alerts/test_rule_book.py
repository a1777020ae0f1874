"""What somebody decides of rules stands in the database, and is so only once it stands there."""

from __future__ import annotations

import threading

import pytest
from kvxray_backend.alerts import rule_book
from kvxray_backend.alerts.rule_book import NotHere, RuleBook
from kvxray_engine.clock import SystemClock
from kvxray_storage.alerts import RuleRow, keep_rule
from kvxray_storage.database import open_database
from sqlalchemy.exc import OperationalError

TEXT = "rules:\n  - {name: Own, sentence: s, when: [{finding: leak}]}\n"


@pytest.fixture
def database(tmp_path):
    database = open_database(f"sqlite:///{tmp_path / 'kvxray.db'}")
    yield database
    database.close()


def book_of(database, *files):
    book = RuleBook(database, SystemClock(), files)
    book.read()
    return book


def test_a_rule_that_the_database_refuses_is_not_there_later_either(database, tmp_path, monkeypatch):
    file = tmp_path / "rules.yaml"
    file.write_text(TEXT.replace("Own", "OfFile"))
    book = book_of(database, file)

    def refuses(database, row):
        raise OperationalError("insert", {}, OSError("away"))

    with monkeypatch.context() as away:
        away.setattr(rule_book, "keep_rule", refuses)
        with pytest.raises(OperationalError):
            book.add(TEXT)
        with pytest.raises(OperationalError):
            book.switch("LeakNamed", is_on=False)
    book.look()
    assert "OfFile" in book.all
    assert "Own" not in book.all
    assert book.all["LeakNamed"].is_on
    assert book.add(TEXT) == ["Own"]


def test_a_rule_of_the_page_that_cannot_be_read_is_a_problem_until_it_is_removed_or_written_anew(database):
    for name in ("Own", "Other"):
        keep_rule(database, RuleRow(name, True, "rules: [", 1))
    book = book_of(database)
    assert [one.split()[2].strip(",") for one in book.problems] == ["Other", "Own"]
    assert book.remove("Other")
    book.add(TEXT)
    assert book.problems == []


def test_a_database_that_is_slow_to_keep_what_is_decided_does_not_hold_up_the_watch(database, monkeypatch):
    began, goes_on = threading.Event(), threading.Event()

    def slow(database, row):
        began.set()
        assert goes_on.wait(60)

    monkeypatch.setattr(rule_book, "keep_rule", slow)
    book = book_of(database)
    deciding = threading.Thread(target=book.switch, args=("LeakNamed",), kwargs={"is_on": False})
    deciding.start()
    assert began.wait(60)
    looking = threading.Thread(target=book.look)
    looking.start()
    looking.join(10)
    is_held_up = looking.is_alive()
    goes_on.set()
    for thread in (looking, deciding):
        thread.join()
    assert not is_held_up
    assert not book.all["LeakNamed"].is_on


def test_a_rule_of_the_page_whose_name_a_file_took_since_can_be_removed(database, tmp_path):
    book_of(database).add(TEXT)
    file = tmp_path / "rules.yaml"
    file.write_text(TEXT)
    book = book_of(database, file)
    book.look()
    assert "The rule Own of the page is not used" in book.problems[0]
    assert book.remove("Own")
    assert book.problems == []
    assert book.all["Own"].origin == "file"
    with pytest.raises(NotHere, match="of a file"):
        book.remove("Own")
