"""Workflows: jobs that depend on each other, and batches with callbacks.

    flow = workflow("nightly")
    pages = [flow.add(fetch.args(url)) for url in urls]
    flow.add(report.args(), after=pages)
    handle = flow.enqueue()

Nothing of a workflow runs before all of it is enqueued, and a rolled-back transaction
leaves nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_qless.conf import routing
from django_qless.core import NotReplicated, new_jid
from django_qless.core.exceptions import REFUSALS
from django_qless.enqueue import dispatch
from django_qless.enqueue.dependencies import TAKE
from django_qless.enqueue.plan import EnqueuePlan, declared_plan
from django_qless.enqueue.request import CallArguments
from django_qless.exceptions import InvalidOption, NotPut
from django_qless.job_types.handle import JobHandle
from django_qless.job_types.options import check
from django_qless.workflows.graph import Node, WorkflowRequest, in_order
from django_qless.workflows.handle import WorkflowHandle

if TYPE_CHECKING:
    from types import TracebackType

    from django_qless.enqueue.dependencies import Dependency
    from django_qless.job_types.options import Options
    from django_qless.job_types.registry import JobType


class Workflow:
    """Jobs that are enqueued together; `workflow()` and `batch()` make one.

    As a context manager it is enqueued when the block ends well.
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
        #: None before it is enqueued. (Any: behind a `with`, no type checker knows.)
        self.handle: WorkflowHandle | Any = None
        self._policy: str = check(str(self), "on_failure", on_failure)
        self._on_commit = on_commit
        self._alias = alias
        self._nodes: list[Node] = []
        # The options are kept beside their plan, so that their id is not used again.
        self._plans: dict[tuple[JobType, int], tuple[Options, EnqueuePlan]] = {}
        self._by_key: dict[str, Node] = {}
        self._databases: set[str] = set()

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
        arguments: CallArguments,
        *,
        after: Iterable[Node | JobHandle[Any]] = (),
        on_failure: str | None = None,
    ) -> Node:
        """Add a job, which `.args()` made, that waits for the jobs `after`.

        `on_failure` says what a failure among those does to it: "block" (it waits until
        they are retried), "cancel", or "run"; None: what the job or the workflow says.
        Raises InvalidOption for what cannot be part of the workflow.
        """
        self.check_open()
        if not isinstance(arguments, CallArguments):
            raise InvalidOption(
                f"{self}: add() takes what .args() returns, as add(fetch.args(url)), "
                f"not {arguments!r}"
            )
        after = [after] if isinstance(after, (Node, JobHandle)) else list(after)
        job_type, options = arguments.job_type, arguments.options
        options = job_type.options if options is None else options
        outside = [each for each in options.after if isinstance(each, JobHandle)]
        self.check_alias(routing.alias_for(options), job_type.name, options.queue)
        self._check_suits(job_type, options, arguments)
        policy = self._policy
        if on_failure is not None:
            policy = check(str(self), "on_failure", on_failure)
        elif options.on_failure != "block":
            policy = options.on_failure
        request = self._plan(job_type, options).request(
            *(arguments.data, arguments.key),
            limit_keys=arguments.limit_keys,
            conflict=arguments.conflict,
            pending=True,
        )
        dependencies = [*after, *outside, *self._dependencies(arguments)]
        node = self._added(Node(self, request, policy), dependencies)
        self._databases.update(arguments.databases)
        return node

    def enqueue(self) -> WorkflowHandle:
        """Enqueue all of it, at once or on commit; return its handle.

        Raises DependencyCycle, which names the cycle, and what enqueueing a job raises:
        then nothing is enqueued.
        """
        request, transaction = self._seal()
        try:
            dispatch.send(request, transaction)
        except NotReplicated:
            raise  # It is there.
        except BaseException as error:
            self._unseal(error)
            raise
        return request.handle

    async def aenqueue(self) -> WorkflowHandle:
        """Enqueue all of it, from asynchronous code; return its handle."""
        if self._alias and dispatch.uses_outbox(self._on_commit, self._alias):
            # In the thread that may have the transaction.
            return await sync_to_async(self.enqueue)()
        request, transaction = self._seal()
        try:
            await dispatch.asend(request, transaction)
        except NotReplicated:
            raise  # It is there.
        except BaseException as error:
            self._unseal(error)
            raise
        return request.handle

    def _seal(self) -> tuple[WorkflowRequest, str | None]:
        """Return the request, and the database whose commit it awaits."""
        self.check_open()
        if not self._nodes:
            raise InvalidOption(f"{self} has no jobs: add(…) some before enqueue()")
        nodes = in_order(self, self._nodes)
        wanted = {dispatch.commit_database(self._on_commit, n) for n in self._databases}
        names = [name for name in wanted if name is not None]
        transaction = dispatch.open_transaction(str(self), names)
        if not transaction:
            self._check_dependencies_enqueued(nodes)
        assert self._alias is not None
        self.handle = WorkflowHandle.of_put(
            self._alias, self.id, self.name, len(nodes), pending=bool(transaction)
        )
        outbox = dispatch.uses_outbox(self._on_commit, self._alias)
        return WorkflowRequest(self.handle, nodes, outbox=outbox), transaction

    def _unseal(self, error: BaseException) -> None:
        """Allow another enqueue after an error.

        What was refused was taken back, under this id. Otherwise part of it may be there,
        and the next attempt goes on with that.
        """
        self.handle = None
        if isinstance(error, REFUSALS):
            self.id = new_jid()

    def _dependencies(self, arguments: CallArguments) -> list[Node]:
        """Return the jobs that its option `after` names; each is in the workflow once."""
        nodes: list[Node] = []
        for job in arguments.dependencies.jobs:
            known = self._by_key.get(job.key)
            nodes.append(known or self._dependency(job, nodes))
        return [nodes[index] for index in arguments.dependencies.after]

    def _dependency(self, job: Dependency, nodes: Sequence[Node]) -> Node:
        plan = declared_plan(job.job_type)
        queue = job.job_type.options.queue
        self.check_alias(plan.alias, job.job_type.name, queue)
        request = plan.request(
            *(job.data, job.key),
            conflict=TAKE,
            pending=True,
            limit_keys=job.limit_keys,
        )
        node = Node(self, request, self._policy)
        return self._added(node, [nodes[index] for index in job.after])

    def _added(self, node: Node, after: Sequence[Node | JobHandle[Any]]) -> Node:
        node.after(*after)
        self._nodes.append(node)
        if node.request.key:
            self._by_key[node.request.key] = node
        return node

    def _check_dependencies_enqueued(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            for handle in node.outside:
                if handle.pending:
                    raise NotPut(
                        f"{self} would be enqueued before job {handle.jid}, on which "
                        f"its {node.name} depends and which waits for a commit: let "
                        "both wait for the same one, see on_commit="
                    )

    def _plan(self, job_type: JobType, options: Options) -> EnqueuePlan:
        key = (job_type, id(options))
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = options, EnqueuePlan(job_type, options)
        return found[1]

    def _check_suits(
        self, job_type: JobType, options: Options, arguments: CallArguments
    ) -> None:
        conflict = arguments.conflict or options.on_conflict
        if arguments.key and (conflict != TAKE or options.debounce):
            raise InvalidOption(
                f"{self}: {job_type.name} is unique, and another job cannot stand for "
                f"one of a workflow: add it with .using(unique=None).args(…)"
            )

    def check_alias(self, alias: str, job_name: str, queue: str) -> None:
        """Raise InvalidOption for a job in another alias; the first one decides."""
        if self._alias is None:
            self._alias = alias
        elif alias != self._alias:
            raise InvalidOption(
                f"{self} is in alias {self._alias!r}, and {job_name} (queue {queue!r}) in "
                f"alias {alias!r}: all jobs of a workflow must be in one alias, see "
                f".using(alias=…). {routing.REMEDY}"
            )

    def check_open(self) -> None:
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

    `on_failure` says what a failed or cancelled job does to those that wait for it: "block",
    "cancel" or "run". `on_commit` names the database whose commit it waits for: None
    the default one, False none. All its jobs are in one alias.
    """
    return Workflow(name, on_failure=on_failure, on_commit=on_commit, alias=alias)


def batch(
    jobs: Iterable[CallArguments],
    *,
    on_success: CallArguments | None = None,
    on_complete: CallArguments | None = None,
    name: str = "",
    on_commit: bool | str | None = None,
    alias: str | None = None,
) -> Workflow:
    """Return a workflow of parallel jobs, and of those that follow them.

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
