"""The jobs of a workflow that is being put together, and all of them on their way."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django_qless.connections import connections
from django_qless.core import Put
from django_qless.current import running
from django_qless.exceptions import InvalidOption
from django_qless.handle import JobHandle
from django_qless.puts.parcel import REFUSED_ALONE
from django_qless.signals import job_enqueued
from django_qless.values import to_json

if TYPE_CHECKING:
    from django_qless.puts.parcel import Item
    from django_qless.workflows.building import Workflow
    from django_qless.workflows.handle import WorkflowHandle

logger = logging.getLogger("django_qless")


class Node:
    """A job of a workflow that is being put together: what `add()` returns."""

    __slots__ = ("_policy", "flow", "inside", "item", "outside")

    def __init__(self, flow: Workflow, item: Item, policy: str) -> None:
        self.flow = flow
        #: The job as it will be put.
        self.item = item
        self._policy = policy
        #: The jobs of the workflow, and those that were put before, that it waits for.
        self.inside: dict[Node, None] = {}
        self.outside: dict[JobHandle[Any], None] = {}

    def __repr__(self) -> str:
        return f"<Node {self.name} {self.jid}>"

    @property
    def handle(self) -> JobHandle[Any]:
        """The job's handle; it is pending until the workflow is put."""
        return self.item.handle

    @property
    def jid(self) -> str:
        """The job's id."""
        return self.item.handle.jid

    @property
    def name(self) -> str:
        """The name of the job type."""
        return self.item.plan.job_type.name

    def after(self, *others: Node | JobHandle[Any]) -> Node:
        """Let the job wait for these, too; return the node.

        They are nodes of the same workflow, or handles of jobs that were put before.
        """
        self.flow.must_be_open()
        for other in others:
            if isinstance(other, Node):
                if other.flow is not self.flow:
                    raise InvalidOption(
                        f"{self.flow}: {self.name} cannot wait for {other.name}, which "
                        f"belongs to another {other.flow}"
                    )
                self.inside[other] = None
            elif isinstance(other, JobHandle):
                self.flow.must_be_here(other.alias, f"job {other.jid}")
                self.outside[other] = None
            else:
                raise InvalidOption(
                    f"{self.flow}: {self.name} can wait for what add() returned and for "
                    f"handles of jobs, not for {other!r}"
                )
        return self

    def put(self) -> Put:
        """Return the job as it is put if that happens now."""
        plan = self.item.plan
        put = plan.blueprint.put_of(self.item)
        depends = dict.fromkeys(
            (
                *(*put.depends, *plan.blueprint.further(self.item)),
                *(handle.jid for handle in self.outside),
                *(node.jid for node in self.inside),
            )
        )
        policy = "" if self._policy == "block" else self._policy
        return put._replace(
            depends=tuple(depends),
            open=False,
            debounce=None,
            debounce_max=None,
            on_failure=policy,
            workflow=self.flow.id,
        )


class Cargo:
    """A workflow on its way to the server."""

    __slots__ = ("handle", "nodes")

    def __init__(self, handle: WorkflowHandle, nodes: Sequence[Node]) -> None:
        self.handle = handle
        self.nodes = nodes

    @property
    def alias(self) -> str:
        """The alias of QLESS that it goes to."""
        return self.handle.alias

    @property
    def handles(self) -> list[JobHandle[Any]]:
        """The handles of its jobs."""
        return [node.handle for node in self.nodes]

    def puts(self) -> list[Put]:
        """Return its jobs as they are put if that happens now."""
        return [node.put() for node in self.nodes]

    def send(self) -> None:
        """Put it. Raises what the server refuses."""
        connections[self.alias].put_workflow(*self._arguments())
        self.delivered()
        if job_enqueued.receivers:
            for node in self.nodes:
                job_enqueued.send(node.item.plan.job_type, handle=node.handle)

    async def asend(self) -> None:
        """Put it from asynchronous code. Raises what the server refuses."""
        await connections.aclient(self.alias).put_workflow(*self._arguments())
        self.delivered()
        if job_enqueued.receivers:
            for node in self.nodes:
                await job_enqueued.asend(node.item.plan.job_type, handle=node.handle)

    def send_late(self) -> None:
        """Put it at a commit. What is refused there is logged, not raised."""
        try:
            self.send()
        except REFUSED_ALONE as error:
            self.handle.pending = False
            for node in self.nodes:
                node.handle.pending = node.handle.created = False
            name = self.handle.name or self.handle.id
            logger.error("workflow %s was not put at the commit: %s", name, error)

    def delivered(self) -> None:
        """Take note that it is put."""
        self.handle.pending = False
        for node in self.nodes:
            node.handle.pending = False
            node.handle.created = True

    def _arguments(self) -> tuple[str, str, list[Put], str]:
        job, name = running.get(), self.handle.name
        meta = to_json({"name": name}) if name else "{}"
        return job.worker if job else "", self.handle.id, self.puts(), meta
