"""The graph of a workflow: its jobs, their order, and the enqueue request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from django_qless.core import DependencyCycle, Put
from django_qless.core.client import Client
from django_qless.core.replication import LateReplicas
from django_qless.core.request import Steps
from django_qless.enqueue.dispatchable import Dispatchable
from django_qless.enqueue.plan import met_of
from django_qless.enqueue.request import REFUSED_ALONE, running_worker
from django_qless.exceptions import InvalidOption
from django_qless.job_types.handle import JobHandle
from django_qless.outbox.delivery import through
from django_qless.serialization.json_values import to_json
from django_qless.signals import job_enqueued

if TYPE_CHECKING:
    from django_qless.enqueue.request import EnqueueRequest
    from django_qless.workflows.builder import Workflow
    from django_qless.workflows.handle import WorkflowHandle

logger = logging.getLogger("django_qless")


class Node:
    """A job of a workflow that is not enqueued yet: what `add()` returns."""

    __slots__ = ("_policy", "flow", "inside", "outside", "request")

    def __init__(self, flow: Workflow, request: EnqueueRequest, policy: str) -> None:
        self.flow = flow
        self.request = request
        self._policy = policy
        #: Its dependencies in the workflow, and those that were enqueued before.
        self.inside: dict[Node, None] = {}
        self.outside: dict[JobHandle[Any], None] = {}

    def __repr__(self) -> str:
        return f"<Node {self.name} {self.jid}>"

    @property
    def handle(self) -> JobHandle[Any]:
        """The job's handle; it is pending until the workflow is enqueued."""
        return self.request.handle

    @property
    def jid(self) -> str:
        """The job's id."""
        return self.request.handle.jid

    @property
    def name(self) -> str:
        """The name of the job type."""
        return self.request.plan.job_type.name

    def after(self, *others: Node | JobHandle[Any]) -> Node:
        """Let the job wait for these, too; return the node.

        They are nodes of the same workflow, or handles of jobs enqueued before.
        """
        self.flow.check_open()
        for other in others:
            if isinstance(other, Node):
                if other.flow is not self.flow:
                    raise InvalidOption(
                        f"{self.flow}: {self.name} cannot wait for {other.name}, which "
                        f"belongs to another {other.flow}"
                    )
                self.inside[other] = None
            elif isinstance(other, JobHandle):
                self.flow.check_alias(other.alias, f"job {other.jid}", other.queue)
                self.outside[other] = None
            else:
                raise InvalidOption(
                    f"{self.flow}: {self.name} can wait for what add() returned and for "
                    f"handles of jobs, not for {other!r}"
                )
        return self

    def put(self) -> Put:
        """Return the job as a Put, as of now."""
        request = self.request
        put = request.put()
        depends = dict.fromkeys(
            (
                *put.depends,
                *(handle.jid for handle in self.outside),
                *(node.jid for node in self.inside),
            )
        )
        policy = "" if self._policy == "block" else self._policy
        return put._replace(
            depends=tuple(depends),
            met=tuple(
                filter((request.plan.met | met_of(self.outside)).__contains__, depends)
            ),
            debounce=None,
            on_failure=policy,
            workflow=self.flow.id,
        )


def in_order(flow: Workflow, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes in topological order, otherwise in the order given.

    Raises DependencyCycle, which names the jobs of the cycle.
    """
    sorter = TopologicalSorter({node: node.inside for node in nodes})
    try:
        sorter.prepare()
    except CycleError as error:
        path = " → ".join(node.name for node in error.args[1])
        raise DependencyCycle(
            f"{flow}: jobs wait for each other in a cycle: {path}"
        ) from None
    index = {node: number for number, node in enumerate(nodes)}
    ready: list[int] = []
    ordered: list[Node] = []
    while sorter.is_active():
        for node in sorter.get_ready():
            heappush(ready, index[node])
        ordered.append(nodes[heappop(ready)])
        sorter.done(ordered[-1])
    return ordered


class WorkflowRequest(Dispatchable):
    """A workflow to enqueue: what the dispatcher sends."""

    outbox: bool = False

    def __init__(
        self, handle: WorkflowHandle, nodes: Sequence[Node], *, outbox: bool
    ) -> None:
        self.handle = handle
        self.nodes = nodes
        self.outbox = outbox

    @property
    def alias(self) -> str:
        """The alias of QLESS that it goes to."""
        return self.handle.alias

    @property
    def handles(self) -> list[JobHandle[Any]]:
        """The handles of its jobs."""
        return [node.handle for node in self.nodes]

    @property
    def awaiting(self) -> list[WorkflowHandle | JobHandle[Any]]:
        """The handles of the workflow and of its jobs."""
        return [self.handle, *self.handles]

    def puts(self) -> list[Put]:
        """Return its jobs as Puts, as of now."""
        return [node.put() for node in self.nodes]

    def send_on_commit(self) -> None:
        """Enqueue it on commit. What is refused there is logged, not raised."""
        try:
            self.send()
        except REFUSED_ALONE as error:
            self.handle.pending = False
            for node in self.nodes:
                node.handle.pending = node.handle.created = False
            name = self.handle.name or self.handle.id
            logger.error("workflow %s was not enqueued on commit: %s", name, error)

    def mark_enqueued(self) -> None:
        """Note that it is enqueued."""
        self.handle.pending = False
        for node in self.nodes:
            node.handle.pending = False
            node.handle.created = True

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"workflow {self.handle.name or self.handle.id}"

    def _request(self) -> Any:
        handle = self.handle
        meta = to_json({"name": handle.name}) if handle.name else "{}"
        arguments = (running_worker(), handle.id, self.puts(), meta)
        return Client.put_workflow.build(None, *arguments)

    def _sending(self, client: Any, announce: Callable[..., Any]) -> Steps[None]:
        late = LateReplicas(through(self.through, client))
        yield late.run(self._request())
        self.mark_enqueued()
        if job_enqueued.receivers:
            for node in self.nodes:
                yield announce(node.request.plan.job_type, handle=node.handle)
        late.check(self.handles, self.handle.id)
