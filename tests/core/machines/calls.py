"""Jobs of a batch as the wire has them; ticks, of which machines know the outcome only."""

from __future__ import annotations

from collections.abc import Sequence

from tests.core.caller import flat
from tests.core.machines.job import Put
from tests.core.machines.machine import Wire


def items(puts: Sequence[Put]) -> list[object]:
    """Return jobs as put.many takes them."""
    parts: list[object] = []
    for put in puts:
        options = put.options()
        first = [put.jid, put.queue, put.klass, put.data, put.delay]
        parts += [*first, len(options), *flat(options)]
    return parts


# Ticks of declared schedules.


def serve_ticks(wire: Wire, worker: str, every: dict[str, int]) -> int:
    """Do what the worker does that leads: put the jobs of due ticks, each call twice.

    `every` has the seconds between the ticks of each schedule. Return how many were put.
    """
    number, most = 0, 100
    while most:
        most -= 1
        _, _, leads, due = wire.call("schedule.due", worker, 100)
        assert leads == 1
        ticks: list[object] = []
        for id_, score, since, _, cron, _, missed in zip(*[iter(due)] * 7, strict=True):
            first, step = float(score), every[id_]
            if since:
                after = float(since)
                first = (after // step + 1) * step if cron else after + step
            ticks += ticks_of(id_, score, first, step, missed, wire.now)
        if not ticks:
            return number
        put = wire.call("schedule.tick", *ticks)
        again = wire.call("schedule.tick", *ticks)
        assert not any(again), f"put twice: {ticks}"
        number += sum(put)
    raise AssertionError("ticks without end")


def ticks_of(
    id_: str, score: str, first: float, step: int, missed: str, now: float
) -> list[object]:
    """Return what becomes of a schedule: the ticks that put a job, by its policy."""
    if first > now:
        return [id_, score, "", "", first, ""]
    last = first + (now - first) // step * step
    if missed != "all":
        missed_at = last + min(60, step / 2) if missed == "none" else ""
        return [id_, score, last, missed_at, last + step, ""]
    ticks: list[object] = []
    while first <= last:
        ticks += [id_, score, first, "", first + step, ""]
        first, score = first + step, repr(first + step)
    return ticks
