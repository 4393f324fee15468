"""A real PostgreSQL for the tests that SQLite cannot serve: private, ended for certain."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.real_servers import LAUNCH, guard, poll, short_folder

# PostgreSQL refuses to be run by root.
NOBODY = "nobody" if os.geteuid() == 0 else None

QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


def programs() -> Path | None:
    """Return the folder with initdb and postgres, or None if there is none."""
    given = os.environ.get("QLESS_POSTGRES")
    if given:
        return Path(given)
    # Debian keeps them out of PATH; what is there may be links to where they are.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    beside = shutil.which("initdb")
    if beside:
        found.append(Path(beside).resolve())
    return found[0].parent if found else None


def is_available() -> bool:
    """Return whether this machine has a server, and Python a driver."""
    return programs() is not None and find_spec("psycopg") is not None


def missing() -> list[str]:
    """Return, in words, what is not tested because this machine lacks it."""
    if is_available():
        return []
    return ["what becomes of PostgreSQL connections (no postgresql, or no psycopg)"]


class Postgres:
    """One server with its data in a separate folder; both go with `close()`."""

    user = "tests"

    def __init__(self) -> None:
        folder = programs()
        if folder is None:
            raise RuntimeError("there is no PostgreSQL on this machine")
        self.programs = folder
        self.folder = short_folder()
        if NOBODY:
            shutil.chown(self.folder, NOBODY)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = guard(self.folder)

    @property
    def database(self) -> dict[str, Any]:
        """The entry for Django's DATABASES."""
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": self.user,
            "HOST": str(self.folder),
        }

    def start(self) -> Postgres:
        """Make the data, start the server and wait until it answers."""
        import psycopg

        data = self.folder / "data"
        self._prepare(
            [
                *(self.programs / "initdb", "--pgdata", data, "--username", self.user),
                *("--auth", "trust", "--no-sync", "--encoding", "UTF8"),
            ]
        )
        options = [word for option in QUICK for word in ("-c", option)]
        self._launch(
            [
                *(str(self.programs / "postgres"), "-D", str(data)),
                *("-k", str(self.folder), "-c", "listen_addresses=", *options),
            ]
        )
        poll(
            lambda: self._answers(psycopg.OperationalError),
            what=f"PostgreSQL answers: {self.log}",
        )
        return self

    def ask(self, query: str) -> list[Any]:
        """Return the rows, if there are any, from a connection of one's own."""
        import psycopg

        with psycopg.connect(
            host=str(self.folder), user=self.user, dbname="postgres"
        ) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    @property
    def log(self) -> str:
        """What the server wrote so far."""
        return (self.folder / "server.log").read_text(errors="replace")

    def close(self) -> None:
        """End the server at once and remove its folder."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(20)
        assert self._guard.stdin is not None
        self._guard.communicate(b"\nclose\n")

    def end_connections(self) -> None:
        """Close the connections of all others."""
        self.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
        )

    def set_time_zone(self, offset: str) -> None:
        """Set the time zone of new connections."""
        self.ask(f"ALTER DATABASE postgres SET timezone TO '{offset}'")

    def _prepare(self, command: list[str | Path]) -> None:
        """Run the program that makes the data."""
        done = subprocess.run(
            command,
            user=NOBODY,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} has failed: {done.stdout}")

    def _launch(self, command: list[str]) -> None:
        """Start the server."""
        with (self.folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", LAUNCH, "launch", *command],
                user=NOBODY,
                cwd=self.folder,
                stdin=self._guard.stdin,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _answers(self, refusal: type[Exception]) -> bool:
        """Return whether it answers; `refusal` is raised while it does not."""
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(f"PostgreSQL has ended: {self.log}")
        try:
            return bool(self.ask("SELECT 1"))
        except refusal:
            return False
