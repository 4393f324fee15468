"""The kinds of database servers that this machine has."""

from __future__ import annotations

from tests import mariadb, postgres
from tests.mariadb import MariaDB
from tests.postgres import Postgres

DatabaseServer = Postgres | MariaDB

SERVERS: dict[str, type[DatabaseServer]] = {}
if postgres.is_available():
    SERVERS["postgres"] = Postgres
if mariadb.is_available():
    SERVERS["mariadb"] = MariaDB
