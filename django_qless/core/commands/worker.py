"""Commands of workers: take jobs, keep their locks, finish them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from .. import arguments
from ..exceptions import BadArgument
from ..protocol import Argument, Packed, pack
from ..request import Command, CommandSequence, J, JobReader, command, no_result
from ..settle import (
    NO_SETTLEMENTS,
    Beat,
    Settled,
    Settlement,
    add_beats,
    add_settled,
    held_text,
    packed_settlements,
    read_beat,
    read_settled,
)


class WorkerCommands(JobReader[J]):
    """Commands of workers; the token of a job proves that they hold it.

    Each command that names a token raises LockLost if it is not the one of the present
    holder, and JobNotFound if the job is gone.
    """

    @command
    def pop(self, queue: str, worker: str, count: int = 1) -> Command[list[J]]:
        """Take up to `count` (at most 250) jobs of a queue, locked."""
        args = (arguments.queue(queue), arguments.name("worker", worker), _count(count))
        return Command("pop", args, "write", self._read_jobs)

    @command
    def settle(
        self,
        worker: str,
        settlements: Iterable[Settlement],
        count: int,
        queues: Sequence[str],
        exclude: Sequence[str] = (),
        wait: int | float | None = None,
        turns: bool = False,
        exhausted: bool = False,
    ) -> Command[Settled] | CommandSequence[Settled]:
        """Settle finished jobs, and take up to `count` (at most 250) new ones.

        The queues are asked in the order given; `*` and `?` stand for the known queues
        that match, in order of name, except those that match `exclude`. The next is asked
        when the one before is empty, or with `turns` when it has given its part of
        `count`. With `wait`, a worker that gets nothing receives the keys on which to
        block, for at most so many seconds. With `exhausted` it is told which jobs were
        found to have failed because their last locks were lost. A settlement that is
        refused (`Settled.refused`) does not stop the others. Works on a full server.
        """
        rest = wait, turns, exhausted
        try:
            names = _listed(queues), _listed(exclude)
            template = _cached_template(worker, count, *names, *rest)
        except TypeError:  # No list, or not hashable: refused here.
            template = _template(worker, count, queues, exclude, *rest)
        parts = packed_settlements(settlements)
        if parts[-1][0] and parts[-1][0] + count > arguments.MOST_JOBS:
            parts.append(NO_SETTLEMENTS)
        packed_worker, reserve = template
        last = Command(
            "settle", (packed_worker, *parts[-1], reserve), "drain", read_settled
        )
        if len(parts) == 1:
            return last
        before = [
            Command(
                "settle", (packed_worker, *part, _NO_RESERVE), "drain", read_settled
            )
            for part in parts[:-1]
        ]
        sizes = tuple(size for size, _ in parts)
        return CommandSequence((*before, last), sizes, add_settled)

    @command
    def beat(
        self,
        worker: str,
        info: str,
        held: Sequence[tuple[str, str] | tuple[str, str, float | None]],
    ) -> CommandSequence[Beat]:
        """Extend the locks of all jobs that a worker holds.

        They are given as (jid, token, held); `held` is the seconds from the job's hand-out
        to the start of its run, None or left out if it has not started. `info` is the JSON
        text of an object that describes the worker, or "". Returns which locks are lost,
        and the orders to the worker.
        """
        head = (
            arguments.name("worker", worker),
            arguments.json_object("info", info) if info else "",
        )
        most = arguments.MOST_ITEMS
        parts = [held[at : at + most] for at in range(0, len(held), most)] or [()]

        def beat(
            jobs: Sequence[tuple[str, str] | tuple[str, str, float | None]],
        ) -> Command[Beat]:
            words = [word for job in jobs for word in _beaten(*job)]
            return Command("beat", (*head, len(jobs), *words), "drain", read_beat)

        sizes = tuple(map(len, parts))
        return CommandSequence(tuple(map(beat, parts)), sizes, add_beats)

    @command
    def heartbeat(self, jid: str, token: str, data: str | None = None) -> Command[int]:
        """Extend the lock, and store new data if given; return when it ends now."""
        more = () if data is None else (arguments.data(data),)
        return Command("heartbeat", (*_held(jid, token), *more), "drain")

    @command
    def complete(
        self,
        jid: str,
        token: str,
        queue: str,
        data: str,
        *,
        next: str | None = None,  # noqa: A002 (the option's name)
        delay: int | float | None = None,
        depends: Sequence[str] = (),
        result: str | None = None,
        result_ttl: int | float | None = None,
        held: int | float | None = None,
    ) -> Command[str]:
        """Complete a job or, with `next`, move it on to that queue.

        `queue` is where it was taken from, `data` replaces its data, `result` is JSON
        text kept for `result_ttl` seconds. `held` is the seconds from the hand-out to the
        start of its run. Returns the job's new state.
        """
        options: list[Argument] = []
        if next is not None:
            options += "next", arguments.queue(next)
        if delay is not None:
            options += "delay", arguments.number("delay", delay)
        if depends:
            options += "depends", arguments.names_json("depends", depends)
        if result is not None:
            options += "result", arguments.text("result", result)
        if result_ttl is not None:
            options += "result_ttl", arguments.number("result_ttl", result_ttl)
        if held is not None:
            options += "held", held_text(held)
        args = (arguments.existing("queue", queue), arguments.data(data), *options)
        return Command("complete", (*_held(jid, token), *args), "drain")

    @command
    def fail(
        self,
        jid: str,
        token: str,
        group: str,
        message: str,
        data: str | None = None,
        held: int | float | None = None,
    ) -> Command[str]:
        """Fail a job for good: into a failure group, with a message. Returns the jid."""
        args = (arguments.name("group", group), arguments.text("message", message))
        more: tuple[Argument, ...] = () if data is None else (arguments.data(data),)
        if held is not None:
            more = (*(more or ("",)), held_text(held))
        return Command("fail", (*_held(jid, token), *args, *more), "drain")

    @command
    def retry(
        self,
        jid: str,
        queue: str,
        token: str,
        delay: int | float = 0,
        group: str = "",
        message: str = "",
        held: int | float | None = None,
    ) -> Command[int]:
        """Return a job to `queue`, to be tried again after `delay` seconds.

        Returns how many retries remain; -1 if there were none and it has failed, in
        `group` or in failed-retries-<queue>.
        """
        args: tuple[Argument, ...] = (
            arguments.existing("jid", jid),
            arguments.queue(queue),
            _token(token),
            arguments.number("delay", delay),
        )
        if group or message or held is not None:
            args += (group, arguments.text("message", message))
        if held is not None:
            args += (held_text(held),)
        return Command("retry", args, "drain")

    @command
    def release(
        self,
        jid: str,
        token: str,
        delay: int | float = 0,
        held: int | float | None = None,
    ) -> Command[None]:
        """Return a job to its queue as if it had not been taken.

        With `held` its run counts as started, so many seconds after the hand-out.
        """
        args: tuple[Argument, ...] = (arguments.number("delay", delay),)
        if held is not None:
            args += (held_text(held),)
        return Command("release", (*_held(jid, token), *args), "drain", no_result)

    @command
    def progress(
        self, jid: str, token: str, fraction: int | float, text: str = ""
    ) -> Command[None]:
        """Store a job's progress: a fraction from 0 to 1, and a text for people."""
        if not 0 <= arguments.number("fraction", fraction) <= 1:
            raise BadArgument(f"fraction must be between 0 and 1, not {fraction}")
        note = arguments.to_json([fraction, arguments.text("text", text)])
        return Command("progress", (*_held(jid, token), note), "drain", no_result)


class _Template(NamedTuple):
    """The common part of a worker's settle commands, checked and packed once."""

    worker: Packed
    reserve: Packed


_NO_RESERVE = pack((0, 0))


def _template(
    worker: str,
    count: int,
    queues: Sequence[str],
    exclude: Sequence[str],
    wait: int | float | None,
    turns: bool,
    exhausted: bool,
) -> _Template:
    names = arguments.existing_names("queues", queues)
    reserve: list[Argument] = [_count(count), len(names), *names]
    for pattern in arguments.existing_names("exclude", exclude):
        reserve += "exclude", pattern
    if wait is not None:
        reserve += "wait", arguments.number("wait", wait)
    if turns:
        reserve += "turns", 1
    if exhausted:
        reserve += "exhausted", 1
    return _Template(pack((arguments.name("worker", worker),)), pack(reserve))


_cached_template = lru_cache(maxsize=1000, typed=True)(_template)


def _listed(names: Sequence[str]) -> Sequence[str]:
    return names if isinstance(names, str) else tuple(names)


def _beaten(jid: str, token: str, held: float | None = None) -> tuple[str, str, str]:
    return jid, token, held_text(held)


def _held(jid: str, token: str) -> tuple[str, str]:
    return arguments.existing("jid", jid), _token(token)


def _token(token: str) -> str:
    if not isinstance(token, str):
        raise BadArgument(
            f"token must be the text that came with the job, not "
            f"{arguments.quoted(token)}"
        )
    return token


def _count(count: int) -> int:
    return min(arguments.integer("count", count, 0), arguments.MOST_JOBS)
