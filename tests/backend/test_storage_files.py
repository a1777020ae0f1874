"""Files of history as people make and take them: of what is not there, half there, and stopped half way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from kvxray_backend.cli import main
from kvxray_storage import models
from kvxray_storage.bookmarks import add_bookmark
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from benchmarks.measuring.model_engine import ModelEngine
from tests.backend.served import serving
from tests.storage.kvx_files import inside, write_sections
from tests.storage.made_up_history import MadeUpHistory

WRITES_AND_WAITS = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from kvxray_storage.exchange.container import KvxWriter
write = KvxWriter.write
def write_and_wait(self, section):
    write(self, section)
    print("writing", flush=True)
    signal.pause()
KvxWriter.write = write_and_wait
from kvxray_backend.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a database with one epoch, 1.0 to about 1.500, and a bookmark."""
    url = f"sqlite:///{tmp_path / 'kvxray.db'}"
    database = open_database(url)
    made = MadeUpHistory(ModelEngine(48, rows=24, seed=3))
    made.snapshot()
    made.steps(20)
    with EventLog(database) as log:
        key = made.store(log)
    add_bookmark(database, "engine", key.epoch, 20, 7, "look", 8)
    database.close()
    return url


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command says, here or there; a refusal is one sentence."""
    assert main(["storage", *arguments]) == code
    said = capsys.readouterr()
    assert code != 2 or said.err.count("\n") == 1
    return said.out + said.err


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-writer"])
def test_an_export_never_takes_the_place_of_the_log(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    link = tmp_path / "link.kvx"
    link.symlink_to(tmp_path / f"kvxray.db{ending}")
    for path in (link, tmp_path / f"kvxray.db{ending}"):
        said = told(capsys, "export", str(path), "--database", url, code=2)
        assert "belongs to the event log that is exported; choose another name" in said
    assert "all is well" in told(capsys, "verify", "--database", url)


def test_an_export_takes_the_place_of_files_only(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pipe = tmp_path / "pipe.parquet"
    os.mkfifo(pipe)
    for path in (pipe, Path("."), tmp_path, Path("/")):
        assert "is no file that can be written anew" in told(capsys, "export", str(path), "--database", url, code=2)
    assert pipe.is_fifo()


def test_an_export_is_what_its_name_ends_in_or_format_says(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--database", url)
    for name in ("d.txt", "d", "d.kvx.gz"):
        said = told(capsys, "export", str(tmp_path / name), *where, code=2)
        assert f"{tmp_path / name} ends neither in .kvx nor in .parquet" in said
        assert not (tmp_path / name).exists()
    told(capsys, "export", str(tmp_path / "d.txt"), *where, "--format", "kvx")
    told(capsys, "export", str(tmp_path / "d.kvx"), *where)
    assert (tmp_path / "d.txt").read_bytes()[:5] == (tmp_path / "d.kvx").read_bytes()[:5] == b"KVXF\x01"


def test_an_export_of_nothing_says_so_and_writes_no_file(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--database", url)
    stats = json.loads(told(capsys, "stats", *where, "--json"))["epochs"][0]
    [before, first, last] = ["2001-01-01T00:00:00", stats["first_at"], stats["last_at"]]
    late = f"1.{stats['last_seq']}"
    for begin, end in (("1.30", "1.20"), ("2.1", "1.1"), (first, before), (late, first), ("1.5", before)):
        for file in (tmp_path / "none.kvx", tmp_path / "none.parquet"):
            said = told(capsys, "export", str(file), *where, "--from", begin, "--to", end, code=2)
            assert "is later than --to" in said, (begin, end)
    for begin, end in (("9.1", "9.2"), (before, before), (f"1.{stats['last_seq'] + 1}", "1.99999")):
        for file in (tmp_path / "none.kvx", tmp_path / "none.parquet"):
            said = told(capsys, "export", str(file), *where, "--from", begin, "--to", end, code=2)
            assert f"Nothing is stored of that, and {file} was not written" in said
    assert sorted(one.name for one in tmp_path.iterdir() if "none" in one.name) == []
    assert "1 epoch, " in told(capsys, "export", str(tmp_path / "part.kvx"), *where, "--from", first, "--to", last)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_that_is_told_to_end_leaves_nothing_half_done(
    url: str, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    file = tmp_path / "out" / "all.kvx"
    file.parent.mkdir()
    command = [sys.executable, "-c", WRITES_AND_WAITS, "storage", "export", str(file), "--database", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
            assert [one.name for one in file.parent.iterdir()] == [".all.kvx.part"]
            process.send_signal(number)
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, errors) == (code, "")
    assert list(file.parent.iterdir()) == []


def test_an_unfinished_import_is_called_that_everywhere(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--database", url)
    file = tmp_path / "all.kvx"
    told(capsys, "export", str(file), *where)
    told(capsys, "import", str(file), *where, "--as", "copy")
    assert told(capsys, "verify", *where).endswith("all is well\n")
    database = open_database(url)
    with database.writing() as connection:
        connection.execute(sa.update(models.epoch).where(models.epoch.c.source_id == 2).values(importing_ns=1))
    database.close()
    assert "  unfinished import: import its file again\n" in told(capsys, "stats", *where)
    said = told(capsys, "verify", *where, code=1)
    assert "epoch 1 of copy: unfinished import; import its file again" in said
    assert said.endswith("1 problem\n")
    assert "is an unfinished import" in told(
        capsys, "export", str(tmp_path / "half.kvx"), *where, "--source", "copy", code=2
    )
    with serving(tmp_path, database_url=url) as client:
        sources = client.get("/api/sources").json()["sources"]
    found = {one["source"]: one["epochs"][0]["unfinished_import"] for one in sources}
    assert found == {"engine": False, "copy": True}
    told(capsys, "import", str(file), *where, "--as", "copy")
    assert "unfinished import:" not in told(capsys, "stats", *where)


def test_a_source_whose_name_is_none_here_needs_another(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "all.kvx", f"sqlite:///{tmp_path / 'other.db'}"
    told(capsys, "export", str(file), "--database", url)

    def rename(section: list[object]) -> None:
        section[0] = "../../engine"

    sections = [one for one in inside(file, 2, rename) if one[0] in (1, 2)]
    write_sections(file, [*sections, (255, msgspec.msgpack.encode([2]))])
    said = told(capsys, "import", str(file), "--database", other, code=2)
    assert "it calls a source '../../engine', which is no name here; give it one with --as." in said
