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


@dataclass(frozen=True)
class WorkflowRecord:
    """A workflow as it was at one moment."""

    id: str
    #: unpacking: it is being put, and nothing of it runs yet. failed: a job has failed and
    #: what is left, if anything, waits for it. canceled: jobs were cancelled, and all have
    #: ended.
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
    #: Why it was canceled, if that was not asked for.
    reason: str | None = None

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
    ) -> CommandSequence[str]:
        """Put jobs, ordered by their dependencies, as one workflow; return its id.

        Nothing of it runs before all of it is there. Up to 1,000 jobs and as many
        dependencies are put by one call, all or nothing. More of them are put by several
        calls, and then released: by one call, after which the workflow goes on whatever
        becomes of the caller. Until then they wait. If a call is refused, or none follows for
        an hour, those that are there are canceled; after a lost connection the same may be
        put again under the same id.

        All jobs must be new; they may depend on others that exist. Raises DependencyCycle
        if the order is wrong, JobNotFound, WrongState for a jid or an id that exists,
        ServerFull. `meta` is the JSON text of an object that is kept with the workflow.
        """
        name = _id(id)
        checked = arguments.json_object("meta", meta)
        jobs = [item._replace(workflow=name) for item in items]
        if not jobs:
            raise BadArgument("a workflow needs at least one job")
        links = sum(len(job.depends) for job in jobs)
        if max(len(jobs), links) <= arguments.MOST_ITEMS:
            parts = list(batches(jobs))
            if len(parts) == 1:
                args = (name, worker, checked, *parts[0][1])
                call: Command[str] = Command("workflow.put", args, "write")
                return CommandSequence(
                    (call,), (len(jobs),), lambda results: str(results[0])
                )
        return _in_parts(name, worker, checked, jobs)

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
        """Cancel some of what is not complete of a workflow, running jobs too.

        Returns how many jobs are left to be looked at: the next call goes on with them.
        Without it the calls of workers do, one step each. Raises JobNotFound if there is no
        such workflow.
        """
        return Command("workflow.cancel", (_known(id),), "drain")

    @command
    def retry_workflow(
        self,
        id: str,  # noqa: A002
        first: int = 0,
    ) -> Command[tuple[int, int]]:
        """Put back failed jobs of a workflow: those of 250 from `first` on.

        Those whose unique keys other jobs have by now stay failed. Returns where to go on,
        0 at the end, and how many were put back since the last such call. Without it the
        calls of workers go on.
        """
        args = (_known(id), arguments.integer("first", first, 0))
        return Command("workflow.retry", args, "write", _read_retried)


def _in_parts(
    name: str, worker: str, meta: Argument, jobs: Sequence[Put]
) -> CommandSequence[str]:
    """Return the calls that put a large workflow."""
    calls: list[Command[Any]] = [Command("workflow.begin", (name, meta), "write")]
    sizes, given = [0], 0
    for group, later in _groups(jobs):
        for number, rows in batches(group):
            calls.append(Command("put.many", (worker, *rows), "write"))
            sizes.append(number)
        given += len(group)
        if later:
            calls += _links(group[-1].jid, later)
            given += len(later.depends)
    calls.append(Command("workflow.release", (name, given), "write"))
    sizes += [0] * (len(calls) - len(sizes))
    return CommandSequence(
        tuple(calls),
        tuple(sizes),
        lambda _: name,
        Command("workflow.cancel", (name,), "drain"),
    )


def _groups(jobs: Iterable[Put]) -> Iterator[tuple[list[Put], Put | None]]:
    """Yield jobs that together have no more dependencies than a call may name.

    If the last one of them has more itself, it comes again with those that are left.
    """
    group: list[Put] = []
    links, most = 0, arguments.MOST_ITEMS
    for job in jobs:
        number = min(len(job.depends), most)
        if links + number > most:
            yield group, None
            group, links = [], 0
        links += number
        if len(job.depends) <= most:
            group.append(job)
            continue
        first = job.depends[:most]
        met = tuple(filter(set(job.met).__contains__, first))
        group.append(job._replace(depends=first, met=met))
        yield group, job._replace(depends=job.depends[most:])
        group, links = [], 0
    if group:
        yield group, None


def _links(jid: str, later: Put) -> Iterator[Command[Any]]:
    """Yield the calls that make a job wait for further ones."""
    met, most = set(later.met), arguments.MOST_ITEMS
    for word, names in (
        ("on", [name for name in later.depends if name not in met]),
        ("met", [name for name in later.depends if name in met]),
    ):
        for at in range(0, len(names), most):
            part = names[at : at + most]
            yield Command("depends", (jid, word, *part), "write")


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
