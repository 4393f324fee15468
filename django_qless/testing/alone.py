"""A captured job run by itself, in a namespace where there is nothing else."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from django_qless import conf
from django_qless.core import Client, Put
from django_qless.puts.parcel import Parcel
from django_qless.sources import source_of
from django_qless.testing import clocks
from django_qless.testing.beginning import begun
from django_qless.testing.performing import (
    Rehearsal,
    must_go_well,
    must_not_be_swallowed,
)
from django_qless.testing.sending import Way
from django_qless.workflows.spawning import Brood

if TYPE_CHECKING:
    from django_qless.puts.outlet import Shipment
    from django_qless.testing.captured import CapturedJob
    from django_qless.testing.runs import Run


class Unspawned(Way):
    """Lets what a job spawns be put as other jobs are.

    A job that runs alone has no record beside them for which anybody could wait.
    """

    def __init__(self, way: Way) -> None:
        self._way = way

    def send(self, shipment: Shipment) -> None:
        """Send it now."""
        self._way.send(_freed_of_parents(shipment))

    async def asend(self, shipment: Shipment) -> None:
        """Send it now, from asynchronous code."""
        await self._way.asend(_freed_of_parents(shipment))

    def send_late(self, shipment: Shipment) -> None:
        """Send it at a commit."""
        self._way.send_late(_freed_of_parents(shipment))


def run_alone(job: CapturedJob, *, raise_failures: bool) -> Run:
    """Run a job now; return how it went, raise what it raised unless that is unwanted."""
    settings = conf.alias(job.alias)
    with closing(
        Client(
            source_of(settings).client(),
            prefix=f"{settings.prefix}alone-{job.jid}:",
            engine=settings.engine,
        )
    ) as client:
        rehearsal = Rehearsal(job.alias, client)
        client.put_many("", [_freed(job.put)])
        [reserved] = client.settle(rehearsal.worker, [], 1, [job.queue]).jobs
        outlet = begun()
        with (
            outlet.using(Unspawned(outlet.way)),
            clocks.held(job.alias, reserved.jid, reserved.token),
        ):
            run = rehearsal.run(reserved)
        if run.outcome == "retried":
            client.cancel(job.jid)
    must_not_be_swallowed(run)
    if raise_failures:
        must_go_well(run, retries=False)
    return run


def _freed_of_parents(shipment: Shipment) -> Shipment:
    return Parcel(shipment.items) if isinstance(shipment, Brood) else shipment


def _freed(put: Put) -> Put:
    """Return the job as one that waits for nothing and stands in nobody's way."""
    return Put(
        jid=put.jid,
        queue=put.queue,
        klass=put.klass,
        data=put.data,
        priority=put.priority,
        retries=put.retries,
        tags=put.tags,
        context=put.context,
    )
