"""The job that is being run: what `current_job()` gives inside one. Needs no Django."""

from __future__ import annotations

import json
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from django_qless.core import Client, Reserved


class Rooms(Protocol):
    """Where the sandboxes of running jobs are."""

    def path_for(self, reserved: Reserved) -> Path:
        """Return the sandbox of this job; make it when asked for the first time."""


class Surroundings(Protocol):
    """What a running job asks of the framework that it runs in."""

    def spawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Put jobs for this one; return their handles."""

    async def aspawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Do the same in a running event loop."""

    def dependency_results(self, current: CurrentJob) -> dict[str, Any]:
        """Return what the jobs returned that this one had to wait for."""

    async def adependency_results(self, current: CurrentJob) -> dict[str, Any]:
        """Do the same in a running event loop."""


class CurrentJob:
    """The job that runs here and now. Properties cost nothing, methods ask the server.

    Methods raise LockLost when the job has been taken away in the meantime: then stop.
    """

    def __init__(
        self,
        reserved: Reserved,
        client: Client,
        worker: str,
        rooms: Rooms | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self.reserved = reserved
        self.client = client
        self.worker = worker
        self.rooms = rooms
        self._surroundings = surroundings
        #: Queue, delay and, as JSON, dependencies: set by `move_to`, settled as said.
        self.moved_to: tuple[str | float, ...] | None = None
        #: The data that the job is to have when it is complete, if not the same.
        self.data_left: str | None = None
        #: What Django's Tasks know of this run, if the job is a Task.
        self.task_run: Any = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.jid}>"

    @property
    def jid(self) -> str:
        """The job's id."""
        return self.reserved.jid

    @property
    def queue(self) -> str:
        """The queue it was taken from."""
        return self.reserved.queue

    @property
    def name(self) -> str:
        """The name of the job type, as in the registry."""
        return self.reserved.klass

    @property
    def data(self) -> Any:
        """The data it was put with: the envelope of its arguments, or a class job's."""
        return json.loads(self.reserved.data)

    @property
    def attempt(self) -> int:
        """Which run this is: 1 for the first, one more after each retry."""
        return self.reserved.retries - self.reserved.remaining + 1

    @property
    def retries_left(self) -> int:
        """How often it will be run again if this run fails."""
        return self.reserved.remaining

    @property
    def tags(self) -> list[str]:
        """The tags it carries."""
        return self.reserved.tag_list

    @property
    def priority(self) -> int | float:
        """Its priority; higher goes first."""
        return self.reserved.priority

    @property
    def context(self) -> dict[str, Any]:
        """What it carries beside its data: options given by the call, for one."""
        return self.reserved.context_object

    @property
    def app_data(self) -> dict[str, Any]:
        """What its put gave it beside the arguments: `using(app_data={…})`."""
        data: dict[str, Any] = self.context.get("app_data") or {}
        return data

    @property
    def sandbox(self) -> Path:
        """A clean directory of this run's own: there only the job's own files are.

        Made when first asked for, readable for this user alone, and removed with all
        that is in it when the run has ended, however it ends. Raises OSError if there
        is no place for one.
        """
        if self.rooms is None:
            raise RuntimeError("only a job that a worker runs has a sandbox")
        return self.rooms.path_for(self.reserved)

    def progress(self, fraction: float, text: str = "") -> None:
        """Tell how far the job is: a number from 0 to 1, and a text for people.

        It is shown until the run ends.
        """
        self.client.progress(self.jid, self.reserved.token, fraction, text)

    def log(self, message: str, **details: Any) -> None:
        """Add an entry to the job's history, with these members."""
        text = json.dumps(details, default=str, ensure_ascii=False)
        self.client.log(self.jid, message, text if details else None)

    def heartbeat(self) -> int:
        """Prolong the lock now; return when it expires, in seconds of the epoch.

        The worker does this by itself; a job calls it to learn that its lock is lost.
        """
        return self.client.heartbeat(self.jid, self.reserved.token)

    def move_to(
        self,
        queue: str,
        *,
        delay: float | timedelta = 0,
        depends: Sequence[str] = (),
    ) -> None:
        """Go on in another queue when this run has ended well, instead of completing.

        Takes effect when the function returns. `depends` are jids to wait for there.
        """
        if not queue or type(queue) is not str:
            raise ValueError(f"move_to: the name of a queue, not {queue!r}")
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        self.moved_to = (queue, seconds)
        if depends:
            self.moved_to += (json.dumps(list(depends)),)

    def spawn(self, jobs: Iterable[Any]) -> list[Any]:
        """Put jobs, which `.args()` made, on behalf of this one; return their handles.

        Whoever depends on this job waits for them as well, also those that are put later;
        so do those that wait for its workflow. Only what one of them waits for itself does
        not wait for that one. Inside a transaction they are put at its commit, as always,
        which must come before the job's end.

        A job that is run again, after a crash for instance, spawns again: give its jobs
        ids of their own, such as `.using(jid=f"{job.jid}-{n}")`, and it puts the same ones
        anew, those that have run by then as well, instead of further ones.
        """
        return self._around.spawn(self, jobs)

    async def aspawn(self, jobs: Iterable[Any]) -> list[Any]:
        """Put jobs on behalf of this one, from asynchronous code; see `spawn`."""
        return await self._around.aspawn(self, jobs)

    def dependency_results(self) -> dict[str, Any]:
        """Return what the jobs returned that this one depends on, by jid.

        In the order in which they were given, each followed by what it has spawned.
        Those without a result are missing: they returned None, have failed, or their
        `result_ttl` has passed. Raises ResultGone if results were dropped before, as there
        were too many.
        """
        return self._around.dependency_results(self)

    async def adependency_results(self) -> dict[str, Any]:
        """Return what `dependency_results` returns, from asynchronous code."""
        return await self._around.adependency_results(self)

    @property
    def _around(self) -> Surroundings:
        if self._surroundings is None:
            raise RuntimeError(
                "only a job that a worker runs can spawn others, or read their results"
            )
        return self._surroundings


#: Whoever runs a job sets this around it.
running: ContextVar[CurrentJob | None] = ContextVar("qless_job", default=None)


def current_job() -> CurrentJob | None:
    """Return the job that is being run, or None outside of any job."""
    return running.get()
