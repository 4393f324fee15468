"""A real MariaDB for the tests that SQLite cannot serve (make mariadb)."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import Any

from tests.database_server import DatabaseServer
from tests.real_servers import poll

# Debian keeps it out of the PATH of ordinary users.
PATHS = ("", "/usr/sbin/", "/usr/local/sbin/")

QUICK = ("--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0")


def program(name: str) -> str | None:
    """Return the path of one of its programs, or None if there is none."""
    return next((found for path in PATHS if (found := shutil.which(path + name))), None)


def is_available() -> bool:
    """Return whether this machine has a server, and Python the driver."""
    return (
        all(map(program, ("mariadbd", "mariadb-install-db")))
        and find_spec("MySQLdb") is not None
    )


class MariaDB(DatabaseServer):
    """A MariaDB, with the limits that it has if not told otherwise."""

    @property
    def database(self) -> dict[str, Any]:
        """The entry for Django's DATABASES."""
        return {
            "ENGINE": "django.db.backends.mysql",
            "NAME": "tests",
            "USER": "root",
            "HOST": str(self.folder / "server.sock"),
        }

    def start(self) -> MariaDB:
        """Make the data, start the server and wait until it answers."""
        import MySQLdb

        install, server = program("mariadb-install-db"), program("mariadbd")
        if not install or not server:
            raise RuntimeError("there is no MariaDB on this machine")
        data = f"--datadir={self.folder / 'data'}"
        self._prepare(
            [
                *(install, "--no-defaults", data, "--skip-test-db"),
                "--auth-root-authentication-method=normal",
            ]
        )
        self._launch(
            [
                *(server, "--no-defaults", data, "--skip-networking", *QUICK),
                f"--socket={self.folder / 'server.sock'}",
            ]
        )
        poll(
            lambda: self._answers(MySQLdb.OperationalError),
            what=f"MariaDB answers: {self.log}",
        )
        self.ask("CREATE DATABASE tests CHARACTER SET utf8mb4")
        return self

    def ask(self, query: str) -> list[Any]:
        """Return the rows, if there are any, from a connection of one's own."""
        import MySQLdb

        connection = MySQLdb.connect(
            unix_socket=str(self.folder / "server.sock"), user="root"
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def end_connections(self) -> None:
        """Close the connections of all others."""
        query = "SELECT id FROM information_schema.processlist WHERE db = 'tests'"
        for (number,) in self.ask(query):
            self.ask(f"KILL {number}")

    def set_time_zone(self, offset: str) -> None:
        """Set the time zone of new connections."""
        self.ask(f"SET GLOBAL time_zone = '{offset}'")
