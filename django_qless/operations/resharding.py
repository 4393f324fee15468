"""Moves jobs whose queue is routed to another namespace now: what `qless_reshard` does.

All that it has to remember is on the servers: which jobs are where, and which wait in an
outbox. So it can be stopped at any moment, and begun again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from django_qless import conf
from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.conf.namespaces import SEPARATOR
from django_qless.core import ConnectionLost, QlessError, WrongState
from django_qless.core.options import OF_A_QUEUE
from django_qless.operations.crossing import Carrier
from django_qless.operations.job_query import JobQuery
from django_qless.operations.status import with_schedules

if TYPE_CHECKING:
    from django_qless.core import Client, Job
    from django_qless.core.commands.queues import QueueCounts

#: Jobs that one call moves.
CHUNK = 100

#: What has to end where it is, by what counts of queues call it, and the reason.
STAYING = {
    "running": "is running: move it when its run has ended",
    "stalled": "is running: move it when its run has ended",
    "depends": "waits for other jobs: move it when it is ready",
    "recurring": "is a recurring job that no code declares: make it again with .recur()",
}

#: Entries of an outbox beyond which no more jobs are taken out.
MOST_ENTRIES = 100

#: Passes over a queue, whose order others change meanwhile.
MOST_PASSES = 20


class Undelivered(ConnectionLost):
    """A namespace does not answer. The jobs on their way to it are safe in the outbox, and
    workers deliver them when it is back: then begin again."""


class Place(NamedTuple):
    """A queue in a namespace."""

    namespace: str
    queue: str


@dataclass
class Progress:
    """What was done with the jobs of one queue in one namespace."""

    place: Place
    counts: dict[str, int]
    """Jobs at the beginning, by state."""
    targets: tuple[str, ...]
    """The namespaces that have the queue now."""
    moved: Counter[str] = field(default_factory=Counter)
    """Jobs that were moved, by target."""
    stay: Counter[str] = field(default_factory=Counter)
    """Jobs that cannot be moved, by the reason, which names the remedy."""
    problem: str = ""
    """What has stopped it, perhaps before any queue was seen; "" if nothing has."""

    @property
    def is_split(self) -> bool:
        """True if some of its jobs may belong where they are."""
        return self.place.namespace in self.targets

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "namespace": self.place.namespace,
            "queue": self.place.queue,
            "targets": [*self.targets],
            "counts": self.counts,
            "moved": dict(self.moved),
            "stay": dict(self.stay),
            "problem": self.problem,
        }


class Resharding:
    """The jobs of an alias that are not where its settings route them."""

    def __init__(
        self,
        alias: str,
        queue: str = "",
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        """`queue`: only this one. `on_progress` is called after each chunk."""
        self._alias = routing.alias_of(alias.removesuffix(SEPARATOR))
        self._names = conf.namespaces_of(alias)
        self._queue = queue
        self._on_progress = on_progress

    def survey(self) -> Iterator[Progress]:
        """Yield each queue with jobs in a namespace to which it is not routed.

        Also the partitions of a queue: which jobs belong elsewhere is seen as they move.
        """
        for name in self._names:
            try:
                yield from self._misplaced(name, connections[name])
            except QlessError as error:
                yield Progress(Place(name, self._queue), {}, (), problem=str(error))

    def _misplaced(self, name: str, client: Client) -> Iterator[Progress]:
        for counts in with_schedules(client, client.queues()):
            if self._queue in ("", counts.name):
                targets = routing.queue_namespaces(self._alias, counts.name)
                if name not in targets or len(targets) > 1:
                    place = Place(name, counts.name)
                    yield Progress(place, _numbers(client, counts), targets)

    def run(self) -> Iterator[Progress]:
        """Move what may move, queue by queue; yield what became of each."""
        for progress in [*self.survey()]:
            try:
                if not progress.problem:
                    _Move(progress, self._alias, self._on_progress).run()
            except QlessError as error:
                progress.problem = str(error)
            yield progress


class _Move:
    """Moves the jobs of one queue out of one namespace."""

    def __init__(
        self, progress: Progress, alias: str, on_progress: Callable[[Progress], None]
    ) -> None:
        self.progress, self._alias = progress, alias
        self._on_progress = on_progress
        self._name, self._queue = progress.place
        self._client = connections[self._name]
        self._carrier = Carrier(self._name)

    def run(self) -> None:
        """Move what may move. Raises Undelivered, and what the servers refuse."""
        targets = [name for name in self.progress.targets if name != self._name]
        # (Also shows that they are there, before a job is taken out.)
        self._prepare([connections[name] for name in targets])
        moves: list[Callable[[Counter[str]], int]] = [
            partial(self._move, "waiting"),
            partial(self._move, "scheduled"),
            self._move_failed,
        ]
        for move in moves:
            for _ in range(MOST_PASSES):
                stay: Counter[str] = Counter()
                if not move(stay):
                    break
            self.progress.stay += stay
        for target in targets:
            self._deliver(target, 0)
        self._note_the_rest()
        if not self.progress.is_split and not self.progress.stay:
            self._forget()

    def _prepare(self, targets: Sequence[Client]) -> None:
        """Pause the queue there if it is paused here, and limit it as here."""
        counts = self._client.queue_counts(self._queue)
        mine = _settings(self._client, self._queue)
        for target in targets:
            theirs = _settings(target, self._queue)
            for option, value in mine.items():
                if option not in theirs:
                    target.config_set(option, value)
            if counts.paused and not target.queue_counts(self._queue).paused:
                reason, by = "", ""
                if counts.pause is not None:
                    reason, by = counts.pause.reason, counts.pause.by
                target.pause(self._queue, reason, by)

    def _move(self, state: Literal["waiting", "scheduled"], stay: Counter[str]) -> int:
        """Go over the jobs in a state once; return how many were moved.

        The next to be handed out go first.
        """
        moved = offset = 0
        while jids := self._client.jobs(state, self._queue, offset, CHUNK):
            gone, left = self._send(jids, stay)
            moved, offset = moved + gone, offset + left
        return moved

    def _move_failed(self, stay: Counter[str]) -> int:
        """Go over the failed jobs once, as `_move` does, from the oldest on."""
        jids = JobQuery(queue=self._queue, state="failed").jids(self._client)
        parts = (jids[start : start + CHUNK] for start in range(0, len(jids), CHUNK))
        return sum(self._send(part, stay)[0] for part in parts)

    def _send(self, jids: Sequence[str], stay: Counter[str]) -> tuple[int, int]:
        """Move those of these jobs that belong elsewhere; return how many, and how many
        are left."""
        moved, left = 0, 0
        for target, some in self._by_target(jids).items():
            if target == self._name:
                left += len(some)
                continue
            self._deliver(target, MOST_ENTRIES)
            result = self._client.send_each(target, some, self._queue, None)
            self.progress.moved[target] += len(result.done)
            moved, left = moved + len(result.done), left + len(result.refused)
            stay.update(
                reason
                for jid, text in result.refused.items()
                if (reason := text.removeprefix(f"Job {jid} ")) and not _is_gone(text)
            )
            self._on_progress(self.progress)
        return moved, left

    def _by_target(self, jids: Sequence[str]) -> dict[str, list[str]]:
        """Return these jobs by the namespaces where they belong, in their order."""
        if len(self.progress.targets) == 1:
            return {self.progress.targets[0]: [*jids]}
        found: dict[str, list[str]] = {}
        for each in self._client.multiget(jids):
            found.setdefault(self._home_of(each), []).append(each.jid)
        return found

    def _home_of(self, each: Job) -> str:
        key = (each.limits or {}).get("key") or each.unique or ""
        return routing.job_namespace(self._alias, self._queue, jid=each.jid, key=key)

    def _deliver(self, target: str, most: int) -> None:
        """Deliver the outbox until so many entries are left for a namespace."""
        while (number := _entries(self._client, target)) > most:
            due = self._client.crossing_due().targets
            if not self._carrier.carry([each for each in due if each.name == target]):
                if _entries(self._client, target) < number:
                    continue  # A worker has delivered them.
                raise Undelivered(
                    f"namespace {target!r} does not answer: {number} entries for it wait "
                    f"in the outbox of {self._name!r}"
                )

    def _note_the_rest(self) -> None:
        """Count what has to end where it is, and belongs elsewhere."""
        counts = _numbers(self._client, self._counted())
        for state, reason in STAYING.items():
            number = counts[state]
            if state == "recurring" and number:
                number = self._not_declared()
            elif number and self.progress.is_split:
                number = self._misplaced(state)
            if number:
                self.progress.stay[reason] += number

    def _misplaced(self, state: Any) -> int:
        """Return how many jobs in a state belong into another partition."""
        found = offset = 0
        while jids := self._client.jobs(state, self._queue, offset, CHUNK):
            offset += len(jids)
            found += sum(
                each.elsewhere is None and self._home_of(each) != self._name
                for each in self._client.multiget(jids)
            )
        return found

    def _counted(self) -> QueueCounts:
        counts = self._client.queue_counts(self._queue)
        return with_schedules(self._client, [counts])[0]

    def _not_declared(self) -> int:
        found, offset = 0, 0
        while True:
            page = self._client.schedules_in(self._queue, offset, 500)
            found += sum(
                not each.owner and self._name not in self._homes_of(each.id)
                for each in page.schedules
            )
            offset += len(page.schedules)
            if not page.schedules or offset >= page.total:
                return found

    def _homes_of(self, schedule: str) -> Sequence[str]:
        if not self.progress.is_split:
            return self.progress.targets
        home = routing.schedule_namespace(self._alias, self._queue, schedule)
        return [home]

    def _forget(self) -> None:
        try:
            self._client.forget_queue(self._queue, only_if_empty=True)
        except WrongState:
            return  # Somebody with the setting of before has enqueued another job.


def _numbers(client: Client, counts: QueueCounts) -> dict[str, int]:
    [failed] = client.failed_of([counts.name])
    states = ("waiting", "scheduled", "running", "stalled", "depends", "recurring")
    return {state: getattr(counts, state) for state in states} | {"failed": failed}


def _settings(client: Client, queue: str) -> dict[str, str]:
    """Return the options of a queue that are set."""
    names = {f"{queue}-{option.name}" for option in OF_A_QUEUE}
    values = client.config_all()
    return {name: values[name] for name in names if name in values}


def _entries(client: Client, target: str) -> int:
    return sum(
        entries for name, entries, _ in client.crossing_waiting() if name == target
    )


def _is_gone(text: str) -> bool:
    """Return whether a job was refused because a worker was faster."""
    return text.endswith("does not exist")
