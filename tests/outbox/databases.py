"""The kinds of database servers that this machine has."""

from __future__ import annotations

from tests.postgres import Postgres, is_available

SERVERS = {"postgres": Postgres} if is_available() else {}
