"""Server memory of a queued job, with default settings."""

from __future__ import annotations

from collections.abc import Iterator

from .floor import Floor
from .processes import site
from .report import Figure, Goal
from .server import Server

TABLE = "Server memory per queued job (bytes)"


def measure(server: Server, *, quick: bool) -> Iterator[Figure]:
    count = 5000 if quick else 20000
    floor = _floor(server, count)
    for line, what, limit in (
        ("function with one argument, data up to 60 bytes", "fill", 850),
        ("method of a model: a row, two tags, a priority", "modules", 1600),
        ("the same, and another job waits for it", "awaited-modules", 1600),
    ):
        with site(server) as project:
            # One batch first: the core itself, and what exists once, do not count.
            project.produce(what, 1000)
            before = server.usage()
            project.produce(what, count)
            used = server.usage() - before
        yield Figure(TABLE, line, used.memory / count, floor, Goal(at_most=limit))


def _floor(server: Server, count: int) -> float:
    server.empty()
    floor = Floor(server.client)
    floor.fill(1000, 50)
    before = server.usage()
    floor.fill(count, 50)
    return (server.usage() - before).memory / count
