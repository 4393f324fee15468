"""A real PostgreSQL for the tests that SQLite cannot serve: private, on a Unix socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.real_servers import GUARD, LAUNCH, poll, short_folder

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
    """One server with its data in a folder of its own; both go with `close()`."""

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
        # Ends the server and clears the folder away should the tests be killed.
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

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
        data = self.folder / "data"
        subprocess.run(
            [
                *(self.programs / "initdb", "--pgdata", data, "--username", self.user),
                *("--auth", "trust", "--no-sync", "--encoding", "UTF8"),
            ],
            user=NOBODY,
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        options = [word for option in QUICK for word in ("-c", option)]
        command = [
            *(str(self.programs / "postgres"), "-D", str(data)),
            *("-k", str(self.folder), "-c", "listen_addresses=", *options),
        ]
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
        poll(self._answers, what=f"PostgreSQL answers: {self.log}")
        return self

    @property
    def log(self) -> str:
        """What the server wrote so far."""
        return (self.folder / "server.log").read_text(errors="replace")

    def ask(self, query: str) -> list[Any]:
        """Return the rows, if there are any, from a connection of one's own."""
        import psycopg

        with psycopg.connect(
            host=str(self.folder), user=self.user, dbname="postgres"
        ) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """End the server at once and remove its folder."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(20)
        assert self._guard.stdin is not None
        self._guard.communicate(b"\nclose\n")

    def _answers(self) -> bool:
        import psycopg

        if self._process is None or self._process.poll() is not None:
            raise AssertionError(f"PostgreSQL has ended: {self.log}")
        try:
            return bool(self.ask("SELECT 1"))
        except psycopg.OperationalError:
            return False
