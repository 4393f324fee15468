"""Jobs and queues as objects, with their actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar, cast

from . import arguments
from .commands import Commands
from .request import (
    OfAsyncClient,
    OfClient,
    Request,
    command,
    of_holder,
    of_jid,
    of_name,
)

if TYPE_CHECKING:
    from typing import Self

    from .states import QueueState

T = TypeVar("T")
J = TypeVar("J")
P = ParamSpec("P")


# Members of the core's JSON that are fields as they are, and those that are lists.
_PLAIN = (
    *("jid", "klass", "state", "queue", "worker", "data", "priority", "retries"),
    *("remaining", "expires", "tracked"),
)
_LISTS = ("tags", "history", "dependents", "dependencies")


class Failure(NamedTuple):
    """A job's last failure."""

    group: str
    message: str
    when: float
    worker: str


class Canceled(NamedTuple):
    """The cancellation of a job. Its data are kept if they are not very long."""

    when: float
    #: Its state before.
    was: str
    #: call (a client canceled it), dependency (one was canceled or failed) or workflow.
    why: str
    #: The jid of the dependency, or the id of the workflow; "" for a call.
    by: str
    #: Its worker then, or "".
    worker: str
    #: Bytes of data and context that were not kept, because they were too many; else 0.
    left_out: int


@dataclass(frozen=True)
class BaseJob(Generic[J]):
    """A job as it was at one moment, and the actions on it. Reading a field does no I/O.

    Actions return the client's results: values for a Job, awaitables for an AsyncJob.
    They do not change the object; refresh() gets a new one.
    """

    client: Any = field(repr=False, compare=False)
    jid: str
    klass: str
    #: waiting (from its time on, if delayed), scheduled, depends, running, stalled, failed
    #: or complete.
    state: str
    #: "" once the job is complete.
    queue: str
    #: The worker that holds the job, or "".
    worker: str
    #: JSON text.
    data: str
    priority: int | float
    #: How often the job may be tried again; remaining: how often it still may.
    retries: int
    remaining: int
    #: When the lock ends, seconds of the epoch; 0 without a lock.
    expires: float
    tags: tuple[str, ...]
    history: tuple[dict[str, Any], ...] = field(repr=False)
    failure: Failure | None
    tracked: bool
    #: The recurring job that put this one.
    spawned_from: str | None
    dependents: tuple[str, ...]
    dependencies: tuple[str, ...]
    #: The present holder's proof of its lock, or "".
    token: str
    #: What travels beside the data.
    context: dict[str, Any]
    #: How far the job is, from 0 to 1, and a text; None if it did not say.
    progress: tuple[float, str] | None
    #: How often a process that ran it died.
    crashes: int
    #: Its fate when a dependency fails: block, cancel or run.
    on_failure: str
    #: The key that it was put with, or None. (Not one that was given for a period.)
    unique: str | None
    #: Its keys under limits (`key`, `fair_by`), and which limit holds it back
    #: (`held_back_by`: kind, type, key); None if it has nothing of that.
    limits: dict[str, Any] | None
    #: The id of the workflow that it is part of, or None.
    workflow: str | None
    #: When it must have started, seconds of the epoch; None for any time.
    deadline: float | None
    #: Seconds left of the time for which the result of a complete job is to be kept, below 0
    #: since its end; None without a result.
    returned: float | None
    #: The cancellation of a canceled job, else None.
    canceled: Canceled | None
    #: The queue in which it had failed for good before it came into this one, or None.
    failed_from: str | None

    @classmethod
    def read(cls, client: Any, members: dict[str, Any]) -> Self:
        """Return the job for the members of the core's JSON."""
        failure, progress = members["failure"], members.get("progress")
        canceled = members.get("canceled")
        values: dict[str, Any] = {name: members[name] for name in _PLAIN}
        values |= {name: tuple(members[name] or ()) for name in _LISTS}
        return cls(
            client=client,
            **values,
            failure=Failure(**failure) if failure else None,
            spawned_from=members["spawned_from_jid"] or None,
            token=members.get("token") or "",
            context=members.get("context") or {},
            progress=(float(progress[0]), progress[1]) if progress else None,
            crashes=members.get("crashes") or 0,
            on_failure=members.get("on_failure") or "block",
            unique=members.get("unique"),
            limits=members.get("limits"),
            workflow=members.get("workflow"),
            deadline=members.get("deadline"),
            returned=members.get("returned"),
            canceled=Canceled(**canceled) if canceled else None,
            failed_from=members.get("failed_from"),
        )

    cancel = of_jid(Commands.cancel)
    timeout = of_jid(Commands.timeout)
    set_priority = of_jid(Commands.priority)
    track = of_jid(Commands.track)
    untrack = of_jid(Commands.untrack)
    log = of_jid(Commands.log)
    result = of_jid(Commands.result)
    heartbeat = of_holder(Commands.heartbeat)
    fail = of_holder(Commands.fail)
    release = of_holder(Commands.release)
    set_progress = of_holder(Commands.progress)

    @command
    def refresh(self) -> Request[J | None]:
        """Return the job as it is now, or None if it is gone."""
        return cast("Request[J | None]", Commands.get.build(self.client, self.jid))

    @command
    def move(
        self, queue: str, delay: int | float = 0, *, worker: str = ""
    ) -> Request[str]:
        """Move the job to another queue, or back to its own; it starts again."""
        context = arguments.to_json(self.context) if self.context else None
        job = (queue, self.jid, self.klass, self.data)
        return Commands.requeue.build(self.client, worker, *job, delay, context=context)

    @command
    def tag(self, *tags: str) -> Request[list[str]]:
        """Add tags; return all tags."""
        return Commands.tag.build(self.client, self.jid, tags)

    @command
    def untag(self, *tags: str) -> Request[list[str]]:
        """Remove tags; return all tags."""
        return Commands.untag.build(self.client, self.jid, tags)

    @command
    def depends_on(self, *jids: str) -> Request[None]:
        """Wait for these jobs as well."""
        return Commands.depends_on.build(self.client, self.jid, jids)

    @command
    def depends_off(self, *jids: str) -> Request[None]:
        """Remove these dependencies; without any, all of them."""
        off = jids or None
        return Commands.depends_off.build(self.client, self.jid, off)

    @command
    def complete(
        self,
        data: str | None = None,
        *,
        next: str | None = None,  # noqa: A002 (the option's name)
        delay: int | float | None = None,
        depends: Sequence[str] = (),
        result: str | None = None,
        result_ttl: int | float | None = None,
        held: int | float | None = None,
    ) -> Request[str]:
        """Complete the job, or with `next` this step of it; return its state.

        Here and below, `held` is the seconds from the hand-out to the start of its run.
        """
        return Commands.complete.build(
            self.client,
            self.jid,
            self.token,
            self.queue,
            self.data if data is None else data,
            next=next,
            delay=delay,
            depends=depends,
            result=result,
            result_ttl=result_ttl,
            held=held,
        )

    @command
    def retry(
        self,
        delay: int | float = 0,
        group: str = "",
        message: str = "",
        held: int | float | None = None,
    ) -> Request[int]:
        """Hand the job back to be tried again; return how many retries remain."""
        held_job = (self.jid, self.queue, self.token)
        return Commands.retry.build(self.client, *held_job, delay, group, message, held)


class Job(BaseJob["Job"], OfClient):
    """A job of a Client."""


class AsyncJob(BaseJob["AsyncJob"], OfAsyncClient):
    """A job of an AsyncClient."""


@dataclass(frozen=True)
class BaseQueue(Generic[J]):
    """A queue and the actions on it; they return the client's results."""

    client: Any = field(repr=False)
    name: str

    counts = of_name(Commands.queue_counts)
    length = of_name(Commands.length)
    stats = of_name(Commands.stats)
    minutes = of_name(Commands.minutes)
    pause = of_name(Commands.pause)
    unpause = of_name(Commands.unpause)
    forget = of_name(Commands.forget_queue)

    @command
    def put(
        self,
        jid: str,
        klass: str,
        data: str,
        delay: int | float = 0,
        *,
        worker: str = "",
        priority: int | float | None = None,
        retries: int | None = None,
        tags: Sequence[str] | None = None,
        depends: Sequence[str] = (),
        context: str | None = None,
        absent: bool = False,
    ) -> Request[str | None]:
        """Put a job; see the client's put."""
        return Commands.put.build(
            self.client,
            worker,
            self.name,
            jid,
            klass,
            data,
            delay,
            priority=priority,
            retries=retries,
            tags=tags,
            depends=depends,
            context=context,
            absent=absent,
        )

    @command
    def pop(self, worker: str, count: int = 1) -> Request[list[J]]:
        """Take up to `count` jobs and return them, locked."""
        jobs = Commands.pop.build(self.client, self.name, worker, count)
        return cast("Request[list[J]]", jobs)

    @command
    def peek(self, count: int = 1) -> Request[list[J]]:
        """Return up to `count` jobs that would be popped next."""
        jobs = Commands.peek.build(self.client, self.name, count)
        return cast("Request[list[J]]", jobs)

    @command
    def jobs(
        self, state: QueueState, offset: int = 0, count: int = 25
    ) -> Request[list[str]]:
        """Return the ids of the jobs in a state."""
        return Commands.jobs.build(self.client, state, self.name, offset, count)

    @command
    def set_heartbeat(self, seconds: int | float) -> Request[None]:
        """Set how long a lock lasts in this queue."""
        option = f"{self.name}-heartbeat"
        return Commands.config_set.build(self.client, option, seconds)

    @command
    def set_max_concurrency(self, jobs: int) -> Request[None]:
        """Set the number of jobs that may run at the same time; 0: any number."""
        option = f"{self.name}-max-concurrency"
        most = arguments.jobs_at_once(jobs)
        return Commands.config_set.build(self.client, option, most)

    @command
    def set_rate(self, rate: str) -> Request[None]:
        """Set how often its jobs may start, as "100/m"; "0": any number."""
        return Commands.config_set.build(self.client, f"{self.name}-rate", rate)

    @command
    def set_weight(self, weight: int | float) -> Request[None]:
        """Set the queue's weight in a lottery with other queues; 0 for never."""
        option = f"{self.name}-weight"
        return Commands.config_set.build(self.client, option, weight)


class Queue(BaseQueue[Job], OfClient):
    """A queue of a Client."""


class AsyncQueue(BaseQueue[AsyncJob], OfAsyncClient):
    """A queue of an AsyncClient."""
