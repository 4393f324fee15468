"""Workflows: jobs that depend on each other, put together, and batches with callbacks.

    flow = workflow("nightly")
    pages = [flow.add(fetch.args(url)) for url in urls]
    flow.add(report.args(), after=pages)
    handle = flow.enqueue()

Nothing of a workflow runs before all of it is there, and a rolled-back transaction leaves
nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django_qless.core import DependencyCycle, new_jid
from django_qless.exceptions import InvalidOption, NotPut
from django_qless.functions import Arguments
from django_qless.handle import JobHandle
from django_qless.puts import outlet
from django_qless.puts.ahead import TAKE
from django_qless.puts.enqueue import Plan, plan_of
from django_qless.workflows.graph import Circle, in_order
from django_qless.workflows.handle import WorkflowHandle
from django_qless.workflows.nodes import Cargo, Node

if TYPE_CHECKING:
    from types import TracebackType

    from django_qless.options import Options
    from django_qless.puts.ahead import Before
    from django_qless.registry import JobType

POLICIES = ("block", "cancel", "run")


class Workflow:
    """Jobs that are put together; `workflow()` and `batch()` make one.

    As a context manager it is put when the block ends well.
    """

    def __init__(
        self,
        name: str = "",
        *,
        on_failure: str = "block",
        on_commit: bool | str | None = None,
        alias: str | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise InvalidOption(f"workflow: name must be a text, not {name!r}")
        self.name = name
        self.id = new_jid()
        #: Known when it was enqueued.
        self.handle: WorkflowHandle | None = None
        self._policy = _policy(str(self), on_failure)
        self._on_commit = on_commit
        self._alias = alias
        self._nodes: list[Node] = []
        # The options are kept beside their plan: the id of one that has gone is given anew.
        self._plans: dict[tuple[JobType, int], tuple[Options, Plan]] = {}
        self._by_key: dict[str, Node] = {}
        self._databases: dict[str, None] = {}

    def __str__(self) -> str:
        return f"workflow {self.name!r}" if self.name else f"workflow {self.id}"

    def __repr__(self) -> str:
        return f"<Workflow {self.name or self.id}: {len(self)} jobs>"

    def __len__(self) -> int:
        return len(self._nodes)

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Workflow:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self.handle is None:
            self.enqueue()

    async def __aenter__(self) -> Workflow:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self.handle is None:
            await self.aenqueue()

    def add(
        self,
        arguments: Arguments,
        *,
        after: Iterable[Node | JobHandle[Any]] = (),
        on_failure: str | None = None,
    ) -> Node:
        """Add a job, which `.args()` made, that waits for the jobs `after`.

        `on_failure` says what a failure among those does to it: "block" (it waits until
        they are retried), "cancel", or "run"; None: what the job or the workflow says.
        Raises InvalidOption for what cannot be part of the workflow.
        """
        self.must_be_open()
        if not isinstance(arguments, Arguments):
            raise InvalidOption(
                f"{self}: add() takes what .args() returns, as add(fetch.args(url)), "
                f"not {arguments!r}"
            )
        if isinstance(after, (Node, JobHandle)):
            after = (after,)
        job_type, options = arguments.job_type, arguments.options
        options = job_type.options if options is None else options
        self._must_suit(job_type, options, arguments)
        policy = self._policy
        if on_failure is not None:
            policy = _policy(str(self), on_failure)
        elif options.on_failure != "block":
            policy = options.on_failure
        item = self._plan(job_type, options).item(
            arguments.data, arguments.key, pending=True
        )
        item = item._replace(conflict=arguments.conflict)
        outside = (each for each in options.after if isinstance(each, JobHandle))
        before = [*after, *outside, *self._ahead(arguments)]
        node = self._added(Node(self, item, policy), before)
        self._databases.update(dict.fromkeys(arguments.databases))
        return node

    def enqueue(self) -> WorkflowHandle:
        """Put all of it, at once or at the commit; return its handle.

        Raises DependencyCycle, which names the circle, and what putting a job raises:
        then nothing is put.
        """
        cargo, waits = self._seal()
        try:
            outlet.ship(cargo, waits)
        except BaseException:
            self._unseal()
            raise
        return cargo.handle

    async def aenqueue(self) -> WorkflowHandle:
        """Put all of it, from asynchronous code; return its handle."""
        cargo, waits = self._seal()
        try:
            await outlet.aship(cargo, waits)
        except BaseException:
            self._unseal()
            raise
        return cargo.handle

    def _seal(self) -> tuple[Cargo, Sequence[str]]:
        """Return what is to be put, and the databases whose commits it waits for."""
        self.must_be_open()
        if not self._nodes:
            raise InvalidOption(f"{self} has no jobs: add(…) some before enqueue()")
        try:
            nodes = in_order(self._nodes, lambda node: node.inside)
        except Circle as circle:
            path = " → ".join(node.name for node in reversed(circle.path))  # type: ignore[attr-defined]
            raise DependencyCycle(
                f"{self}: jobs wait for each other in a circle: {path}"
            ) from None
        names = outlet.databases_of(self._on_commit, *self._databases)
        waits = outlet.open_ones(str(self), names) if names else ()
        if not waits:
            self._must_be_put(nodes)
        assert self._alias is not None
        self.handle = WorkflowHandle.of_put(
            self._alias, self.id, self.name, len(nodes), pending=bool(waits)
        )
        return Cargo(self.handle, nodes), waits

    def _unseal(self) -> None:
        """Let it be enqueued again; under a new id, for part of it may be staged."""
        self.handle = None
        self.id = new_jid()

    def _ahead(self, arguments: Arguments) -> list[Node]:
        """Return the jobs that its option `after` names; each is in the workflow once."""
        nodes: list[Node] = []
        for job in arguments.ahead.jobs:
            known = self._by_key.get(job.key)
            nodes.append(known or self._one_ahead(job, nodes))
        return [nodes[place] for place in arguments.ahead.after]

    def _one_ahead(self, job: Before, nodes: Sequence[Node]) -> Node:
        plan = plan_of(job.job_type)
        self.must_be_here(plan.alias, job.job_type.name)
        item = plan.item(job.data, job.key, pending=True)._replace(conflict=TAKE)
        node = Node(self, item, self._policy)
        return self._added(node, [nodes[place] for place in job.after])

    def _added(self, node: Node, after: Sequence[Node | JobHandle[Any]]) -> Node:
        node.after(*after)
        self._nodes.append(node)
        if node.item.key:
            self._by_key[node.item.key] = node
        return node

    def _must_be_put(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            for handle in node.outside:
                if handle.pending:
                    raise NotPut(
                        f"{self} would be put before job {handle.jid}, on which its "
                        f"{node.name} depends"
                    )

    def _plan(self, job_type: JobType, options: Options) -> Plan:
        key = (job_type, id(options))
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = options, Plan(job_type, options)
        return found[1]

    def _must_suit(
        self, job_type: JobType, options: Options, arguments: Arguments
    ) -> None:
        self.must_be_here(options.alias, job_type.name)
        conflict = arguments.conflict or options.on_conflict
        may_stay = conflict in (TAKE, "refuse") and not options.debounce
        if arguments.key and not may_stay:
            raise InvalidOption(
                f"{self}: {job_type.name} is unique, and another job cannot stand for "
                f"one of a workflow: add it with .using(unique=None).args(…), or with "
                f'on_conflict="refuse"'
            )

    def must_be_here(self, alias: str, whose: str) -> None:
        """Raise InvalidOption for what is in another alias; the first one decides."""
        if self._alias is None:
            self._alias = alias
        elif alias != self._alias:
            raise InvalidOption(
                f"{self} is in alias {self._alias!r}, and {whose} in {alias!r}: all "
                f"jobs of a workflow must be in one, see .using(alias=…)"
            )

    def must_be_open(self) -> None:
        """Raise InvalidOption if it is enqueued: then nothing can be added."""
        if self.handle is not None:
            raise InvalidOption(
                f"{self} is enqueued already: make another one, or let a job of it "
                f"spawn more with current_job().spawn(…)"
            )


def workflow(
    name: str = "",
    *,
    on_failure: str = "block",
    on_commit: bool | str | None = None,
    alias: str | None = None,
) -> Workflow:
    """Return an empty workflow, to `add()` jobs to and to `enqueue()`.

    `on_failure` is what a failed or cancelled job does to those that wait for it: "block",
    "cancel" or "run". `on_commit` names the database whose commit the put waits for: None
    the default one, False none. All its jobs are in one alias.
    """
    return Workflow(name, on_failure=on_failure, on_commit=on_commit, alias=alias)


def batch(
    jobs: Iterable[Arguments],
    *,
    on_success: Arguments | None = None,
    on_complete: Arguments | None = None,
    name: str = "",
    on_commit: bool | str | None = None,
    alias: str | None = None,
) -> Workflow:
    """Return a workflow of jobs that run side by side, and of what follows them.

    `on_success` runs when all of them are complete, after retries too; `on_complete` when
    all have ended for the first time, however. Both are jobs that `.args()` made.
    """
    flow = Workflow(name, on_commit=on_commit, alias=alias)
    nodes = [flow.add(each) for each in jobs]
    if on_success is not None:
        flow.add(on_success, after=nodes, on_failure="block")
    if on_complete is not None:
        flow.add(on_complete, after=nodes, on_failure="run")
    return flow


def _policy(whose: str, policy: str) -> str:
    if policy not in POLICIES:
        raise InvalidOption(
            f"{whose}: on_failure must be one of {', '.join(POLICIES)}, not {policy!r}"
        )
    return policy
