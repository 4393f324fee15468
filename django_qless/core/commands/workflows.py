"""Commands about workflows: jobs that are put together, watched and ended together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .. import arguments
from ..exceptions import BadArgument
from ..protocol import Argument
from ..put import Put, batches
from ..request import Command, CommandSequence, Listing, command, read_listing

WorkflowState = Literal[
    "unpacking", "running", "complete", "failed", "canceling", "canceled"
]

#: Seconds that what is staged is kept without being released.
STAGED_SECONDS = 3600

# Jobs that are staged by one call, and become jobs in one.
_STAGED = 250


@dataclass(frozen=True)
class WorkflowRecord:
    """A workflow as it was at one moment."""

    id: str
    #: unpacking: released, and nothing of it runs yet. failed: a job has failed and what is
    #: left, if anything, waits for it. canceled: jobs were cancelled, and all have ended.
    state: WorkflowState
    #: The members of the JSON object that it was put with.
    meta: dict[str, Any]
    #: How many jobs it has.
    total: int
    complete: int
    failed: int
    canceled: int
    #: Those that wait for others.
    held: int
    #: When it was put, and when the last of it ended, in seconds of the epoch.
    created: float
    finished: float | None

    @property
    def waiting(self) -> int:
        """The number of its jobs that have not ended."""
        return self.total - self.complete - self.failed - self.canceled


class WorkflowCommands:
    """Commands about workflows."""

    @command
    def put_workflow(
        self,
        worker: str,
        id: str,  # noqa: A002 (what it is)
        items: Sequence[Put],
        meta: str = "{}",
        *,
        staged_seconds: int = STAGED_SECONDS,
    ) -> CommandSequence[str]:
        """Put jobs, ordered by their dependencies, as one workflow; return its id.

        Nothing of it runs before all of it is there. Up to 1,000 jobs and as many
        dependencies are put by one call, all or nothing. More of them are staged, where
        no list shows them and where they expire after `staged_seconds`, and then
        released: by one call, after which the workflow is there for good, whatever
        becomes of the caller. A dependency that is gone by then counts as satisfied.

        All jobs must be new; they may depend on others that exist. Raises DependencyCycle
        if the order is wrong, JobNotFound, WrongState for a jid or an id that exists,
        ServerFull. `meta` is the JSON text of an object that is kept with the workflow.
        """
        name = _id(id)
        head = (name, worker, arguments.json_object("meta", meta))
        jobs = [item._replace(workflow=name) for item in items]
        if not jobs:
            raise BadArgument("a workflow needs at least one job")
        if (
            len(jobs) <= arguments.MOST_ITEMS
            and sum(len(job.depends) for job in jobs) <= arguments.MOST_ITEMS
        ):
            parts = list(batches(jobs))
            if len(parts) == 1:
                call: Command[str] = Command(
                    "workflow.put", (*head, parts[0][1]), "write"
                )
                return CommandSequence(
                    (call,), (len(jobs),), lambda results: str(results[0])
                )
        staged = list(_staged(jobs))
        seconds = arguments.integer("staged_seconds", staged_seconds, 1)
        calls: list[Command[Any]] = [
            Command("workflow.stage", (name, seconds, *part), "write")
            for _, part in staged
        ]
        calls.append(Command("workflow.release", (*head, len(staged)), "write"))
        # The next call would do this; do it here.
        steps = len(staged) + len(jobs) // arguments.MOST_ITEMS
        calls += [Command("workflow.carry", (name,), "write")] * steps
        sizes = [size for size, _ in staged] + [0] * (1 + steps)
        return CommandSequence(tuple(calls), tuple(sizes), lambda _: name)

    @command
    def workflow(self, id: str) -> Command[WorkflowRecord | None]:  # noqa: A002
        """Return a workflow, or None if there is none of this id (any more)."""
        return Command("workflow.get", (_known(id),), "read", _read)

    @command
    def workflow_jobs(
        self,
        id: str,  # noqa: A002
        offset: int = 0,
        count: int = 25,
    ) -> Command[Listing]:
        """Return the ids of a workflow's jobs, dependencies first.

        Those that were canceled or are forgotten are among them.
        """
        args = (_known(id), *arguments.page(offset, count))
        return Command("workflow.jobs", args, "read", read_listing)

    @command
    def cancel_workflow(self, id: str) -> Command[int]:  # noqa: A002
        """Begin to cancel all of a workflow that is not complete, running jobs too.

        Returns how many jobs are left to be looked at: carry_workflow goes on with them.
        Without such calls, the next calls of other clients do it, one step each. Raises
        JobNotFound if there is no such workflow.
        """
        return Command("workflow.cancel", (_known(id),), "drain")

    @command
    def carry_workflow(self, id: str) -> Command[int]:  # noqa: A002
        """Take a workflow that is released or being cancelled one step further.

        Returns how much is left; 0 when nothing is.
        """
        return Command("workflow.carry", (_known(id),), "drain")

    @command
    def retry_workflow(
        self,
        id: str,  # noqa: A002
        first: int = 0,
    ) -> Command[tuple[int, int]]:
        """Put back failed jobs of a workflow: those of 250 from `first` on.

        Those whose unique keys other jobs have by now stay failed. Returns where to go on,
        0 at the end, and how many were put back.
        """
        args = (_known(id), arguments.integer("first", first, 0))
        return Command("workflow.retry", args, "write", _read_retried)


def _staged(jobs: Sequence[Put]) -> Iterator[tuple[int, tuple[Argument, ...]]]:
    """Yield the batches that are staged: how many jobs each has, and its arguments.

    The many dependencies of a job come behind all jobs: a job is staged with so many of
    them as one call may name, or with none.
    """
    links: list[tuple[Argument, ...]] = []
    group: list[Put] = []
    number = 0
    for job in jobs:
        depends = job.depends
        if len(depends) > _STAGED:
            most = arguments.MOST_ITEMS
            met = set(job.met)
            for word, names in (
                ("links", [jid for jid in depends if jid not in met]),
                ("met", [jid for jid in depends if jid in met]),
            ):
                for at in range(0, len(names), most):
                    links.append((word, job.jid, *names[at : at + most]))
            job, depends = job._replace(depends=(), met=()), ()
        if len(group) == _STAGED or number + len(depends) > arguments.MOST_ITEMS:
            yield from _staged_jobs(group)
            group, number = [], 0
        group.append(job._replace(absent=True))
        number += len(depends)
    yield from _staged_jobs(group)
    for link in links:
        yield 0, link


def _staged_jobs(group: Iterable[Put]) -> Iterator[tuple[int, tuple[Argument, ...]]]:
    for number, part in batches(group):
        yield number, ("jobs", part)


def _id(value: object) -> str:
    """Return a value that must be the id of a workflow to be made."""
    text = arguments.name("id", value, 128)
    if not all(char.isascii() and (char.isalnum() or char in "_.~-") for char in text):
        raise BadArgument(
            f"id may have letters, digits and _ . ~ -, unlike {arguments.quoted(text)}"
        )
    return text


def _known(value: object) -> str:
    return arguments.existing("id", value)


def _read(reply: str | None) -> WorkflowRecord | None:
    if reply is None:
        return None
    members = json.loads(reply)
    members["meta"] = members["meta"] or {}
    members.setdefault("finished", None)
    return WorkflowRecord(**members)


def _read_retried(reply: list[int]) -> tuple[int, int]:
    return reply[0], reply[1]
