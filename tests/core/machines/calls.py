"""Calls of which the machines know the outcome only: large workflows, ticks."""

from __future__ import annotations

from collections.abc import Sequence

from tests.core.caller import flat
from tests.core.machines.job import Put
from tests.core.machines.machine import Wire

KEPT = 600  # seconds for which parts of a workflow are kept


def items(puts: Sequence[Put]) -> list[object]:
    """Return jobs as put.many takes them."""
    parts: list[object] = []
    for put in puts:
        options = put.options()
        first = [put.jid, put.queue, put.klass, put.data, put.delay]
        parts += [*first, len(options), *flat(options)]
    return parts


# A workflow that is put in several calls; none of its jobs runs before it is released.


def add_to_flow(wire: Wire, flow: str, puts: Sequence[Put]) -> None:
    """Add a batch to a workflow that is not released."""
    for put in puts:
        put.workflow, put.absent = flow, 1
    wire.call("workflow.stage", flow, KEPT, "jobs", *items(puts))


def release_flow(wire: Wire, flow: str, batches: Sequence[Sequence[Put]]) -> None:
    """Let the jobs of a workflow begin, but none before all of them are there."""
    jids = [put.jid for puts in batches for put in puts]
    left = wire.call("workflow.release", flow, "w1", "{}", len(batches))
    while left:
        there = wire.json("multiget", *jids)
        ready = [job["jid"] for job in there if job["state"] == "waiting"]
        assert not ready or len(there) == len(jids), f"{ready} may begin too soon"
        left = wire.call("workflow.carry", flow)


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
        for id_, score, since, *_ in zip(*[iter(due)] * 6, strict=True):
            step = every[id_]
            first = int(float(score))
            if since:
                first = (int(float(since)) // step + 1) * step
            last = int(wire.now) // step * step
            if first > wire.now:
                ticks += [id_, score, "", "", "", first]
            else:
                ticks += [id_, score, first, first + step, last, last + step]
        if not ticks:
            return number
        put = wire.call("schedule.tick", *ticks)
        again = wire.call("schedule.tick", *ticks)
        assert not any(again), f"put twice: {ticks}"
        number += sum(put)
    raise AssertionError("ticks without end")
