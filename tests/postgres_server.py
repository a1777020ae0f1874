"""A PostgreSQL server of the tests' own: its own folder, port and password, run as somebody who is not root."""

from __future__ import annotations

import ctypes
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

USER, PASSWORD = "kvxray", "a secret of the tests"
START_S = 60.0
_ROOM = 1 << 30
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
# A loss of power is not tested, so nothing need reach the disk; what a commit answered must survive all the same, and
# `synchronous_commit = off` makes sure that it is kvxray that asks for it.
_SETTINGS = (
    "fsync=off", "full_page_writes=off", "synchronous_commit=off", "shared_buffers=32MB", "max_connections=100",
    "listen_addresses=127.0.0.1", "max_wal_size=64MB", "min_wal_size=8MB", "autovacuum=off",
)  # fmt: skip


def find_programs() -> Path | None:
    """The folder of `initdb` and `postgres`; Debian keeps them off the path. The newest where there are several."""
    found = shutil.which("initdb")
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda folder: int(folder.split("/")[4]))
    return Path(found).resolve().parent if found else Path(folders[-1]) if folders else None


def _make_folder() -> Path:
    """In memory where there is room: a server makes and removes thousands of files."""
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > _ROOM
    return Path(tempfile.mkdtemp(prefix="kvxray-postgres-", dir=memory if has_room else None))


class PostgresServer:
    """`start`, `stop` and `kill` any number of times; what is stored stays until `remove`."""

    def __init__(self, programs: Path, folder: Path | None = None) -> None:
        self.programs = programs
        self.folder = folder or _make_folder()
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        # The server refuses to run as root. Without root there is nobody else to be.
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{self.port}/{database}"

    def make(self) -> None:
        """The empty cluster."""
        password_file = self.folder / "password"
        password_file.write_text(PASSWORD)
        password_file.chmod(0o644)
        self.run("initdb", "--pgdata", self.data, "--username", USER, "--pwfile", password_file, "--auth=scram-sha-256",
                 "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions", "--wal-segsize=1")  # fmt: skip

    def start(self) -> None:
        """Returns when it answers."""
        options = [word for setting in _SETTINGS for word in ("-c", setting)]
        command = [self.programs / "postgres", "-D", self.data, "-p", str(self.port), "-k", self.folder, *options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=_end_with_the_tests, **self._as_user()
            )
        by = time.monotonic() + START_S
        while not self._answers():
            assert self.process.poll() is None, f"the server ended:\n{self.log()}"
            assert time.monotonic() < by, f"the server does not answer:\n{self.log()}"
            time.sleep(0.05)

    def kill(self) -> None:
        """As `pg_ctl stop -m immediate`: no goodbye, nothing written; it recovers at the next start."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """As `pg_ctl stop -m fast`."""
        self._end(signal.SIGINT)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def create_database(self, name: str, options: str = "") -> str:
        """Its address."""
        self.execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def empty_database(self, name: str) -> None:
        """Whoever is still connected to it goes."""
        self.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        self.execute("DROP SCHEMA public CASCADE", name)
        self.execute("CREATE SCHEMA public", name)

    def run(self, program: str, *arguments: object) -> None:
        """One of PostgreSQL's own programs, in the name of the server's user."""
        command = [self.programs / program, *(str(argument) for argument in arguments)]
        environment = {**os.environ, "PGPASSWORD": PASSWORD, "LC_ALL": "C"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, **self._as_user())
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    def check(self, database: str) -> None:
        """PostgreSQL's own check of every table and index."""
        self.run("pg_amcheck", "--host=127.0.0.1", f"--port={self.port}", f"--username={USER}",
                 "--install-missing", "--heapallindexed", database)  # fmt: skip

    def log(self) -> str:
        return (self.folder / "log").read_text()[-2000:]

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _as_user(self) -> dict[str, object]:
        at_home = {"cwd": self.folder}
        if self._user is None:
            return at_home
        return {**at_home, "user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(number)
            self.process.wait(START_S)
            self.process = None


def _end_with_the_tests() -> None:
    """In the server's process before it begins: it gets SIGQUIT when the tests end, however they do."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
