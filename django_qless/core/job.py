"""A job as it was at one moment, and what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar, cast

from . import arguments
from .calls import OfAsyncClient, OfClient, Request, command
from .commands import Commands

J = TypeVar("J")

# Members of the core's JSON that are fields as they are, and those that are lists.
_PLAIN = (
    *("jid", "klass", "state", "queue", "worker", "data", "priority", "retries"),
    *("remaining", "expires", "tracked"),
)
_LISTS = ("tags", "history", "dependents", "dependencies")


class Failure(NamedTuple):
    """Why and when a job failed last."""

    group: str
    message: str
    when: float
    worker: str


class Canceled(NamedTuple):
    """When and why a job was canceled. Its data are kept if they are not very long."""

    when: float
    #: Its state before.
    was: str
    #: call (by whoever made the call), dependency (one was canceled or failed) or workflow.
    why: str
    #: The jid of the dependency, or the id of the workflow; "" for a call.
    by: str
    #: Who held the job then, or "".
    worker: str
    #: Bytes of data and context that were not kept, because they were too many; else 0.
    left_out: int


@dataclass(frozen=True)
class Snapshot(Generic[J]):
    """A job's record and the actions on it. Reading a field does no I/O.

    Actions return what the client returns: results for a Job, awaitables for an AsyncJob.
    They do not change the snapshot; refresh() gets a new one.
    """

    client: Any = field(repr=False, compare=False)
    jid: str
    klass: str
    #: waiting (from its time on, if delayed), scheduled, depends, running, stalled, failed
    #: or complete.
    state: str
    #: "" once the job is complete.
    queue: str
    #: Who holds the job, or "".
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
    #: The present holder's proof that it holds the job, or "".
    token: str
    #: What is carried beside the data.
    context: dict[str, Any]
    #: How far the job is, from 0 to 1, and a text; None if it did not say.
    progress: tuple[float, str] | None
    #: How often its process died.
    crashes: int
    #: May still be given dependencies, and does not start before it is sealed.
    open: bool
    #: What becomes of it when a dependency fails: block, cancel or run.
    on_failure: str
    #: The key that it was put with, or None. (Not one that was given for a period.)
    unique: str | None
    #: The id of the workflow that it is part of, or None.
    workflow: str | None
    #: When it must have started, seconds of the epoch; None for any time.
    deadline: float | None
    #: Seconds left, or below 0 since the end, of the time for which what the complete job
    #: returned is to be kept; None if it returned nothing.
    returned: float | None
    #: What became of it if it was canceled, else None.
    canceled: Canceled | None

    @classmethod
    def read(cls, client: Any, members: dict[str, Any]) -> Any:
        """Return the snapshot for the members of the core's JSON."""
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
            open=bool(members.get("open")),
            on_failure=members.get("on_failure") or "block",
            unique=members.get("unique"),
            workflow=members.get("workflow"),
            deadline=members.get("deadline"),
            returned=members.get("returned"),
            canceled=Canceled(**canceled) if canceled else None,
        )

    @command
    def refresh(self) -> Request[J | None]:
        """Return the job as it is now, or None if it is gone."""
        return cast("Request[J | None]", Commands.get.build(self.client, self.jid))

    @command
    def cancel(self) -> Request[list[str]]:
        """Cancel the job, whatever its state; raises HasDependents."""
        return Commands.cancel.build(self.client, self.jid)

    @command
    def move(
        self, queue: str, delay: int | float = 0, *, worker: str = ""
    ) -> Request[str]:
        """Move the job to another queue (or back to its own), where it begins anew."""
        return Commands.requeue.build(
            self.client,
            *(worker, queue, self.jid, self.klass, self.data, delay),
            context=arguments.to_json(self.context) if self.context else None,
        )

    @command
    def timeout(self) -> Request[None]:
        """Take the job from its worker; it comes first in its queue."""
        return Commands.timeout.build(self.client, self.jid)

    @command
    def set_priority(self, priority: int | float) -> Request[int]:
        """Change the priority, and with it the place in the queue."""
        return Commands.priority.build(self.client, self.jid, priority)

    @command
    def tag(self, *tags: str) -> Request[list[str]]:
        """Add tags; return all tags."""
        return Commands.tag.build(self.client, self.jid, tags)

    @command
    def untag(self, *tags: str) -> Request[list[str]]:
        """Remove tags; return all tags."""
        return Commands.untag.build(self.client, self.jid, tags)

    @command
    def track(self) -> Request[bool]:
        """Follow the job: its events are published."""
        return Commands.track.build(self.client, self.jid)

    @command
    def untrack(self) -> Request[bool]:
        """Follow the job no longer."""
        return Commands.untrack.build(self.client, self.jid)

    @command
    def log(self, message: str, details: str | None = None) -> Request[None]:
        """Append to the history: a message, and the members of a JSON object."""
        return Commands.log.build(self.client, self.jid, message, details)

    @command
    def depends_on(self, *jids: str) -> Request[None]:
        """Wait for these jobs as well."""
        return Commands.depends_on.build(self.client, self.jid, jids)

    @command
    def depends_off(self, *jids: str) -> Request[None]:
        """Wait for these jobs no longer; without any, for none."""
        off = jids or None
        return Commands.depends_off.build(self.client, self.jid, off)

    @command
    def seal(self) -> Request[None]:
        """Close a job that was put open."""
        return Commands.seal.build(self.client, self.jid)

    @command
    def result(self) -> Request[Any]:
        """Return what the job returned; None if there is nothing (yet)."""
        return Commands.result.build(self.client, self.jid)

    @command
    def heartbeat(self, data: str | None = None) -> Request[int]:
        """Prolong the lock; return when it ends now. Raises LockLost."""
        return Commands.heartbeat.build(self.client, self.jid, self.token, data)

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

        Here and below, `held` is for how many seconds it was held before its run began.
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
    def fail(
        self,
        group: str,
        message: str,
        data: str | None = None,
        held: int | float | None = None,
    ) -> Request[str]:
        """Fail the job for good."""
        return Commands.fail.build(
            self.client, self.jid, self.token, group, message, data, held
        )

    @command
    def retry(
        self,
        delay: int | float = 0,
        group: str = "",
        message: str = "",
        held: int | float | None = None,
    ) -> Request[int]:
        """Give the job back to be tried again; return how many retries remain."""
        return Commands.retry.build(
            *(self.client, self.jid, self.queue, self.token),
            *(delay, group, message, held),
        )

    @command
    def release(
        self, delay: int | float = 0, held: int | float | None = None
    ) -> Request[None]:
        """Give the job back as if it had not been taken."""
        return Commands.release.build(self.client, self.jid, self.token, delay, held)

    @command
    def set_progress(self, fraction: int | float, text: str = "") -> Request[None]:
        """Say how far the job is: a fraction from 0 to 1, and a text for people."""
        return Commands.progress.build(
            self.client, self.jid, self.token, fraction, text
        )


class Job(Snapshot["Job"], OfClient):
    """A job of a Client."""


class AsyncJob(Snapshot["AsyncJob"], OfAsyncClient):
    """A job of an AsyncClient."""
