"""Commands about one held job, and the heartbeat of a worker; `settle` has its own file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import arguments
from ..exceptions import BadArgument
from ..protocol import Argument
from ..request import Command, CommandSequence, J, JobReader, command, no_result
from ..settle import Beat
from .settle import held_text, jobs_wanted


class WorkerCommands(JobReader[J]):
    """Commands of workers; the token of a job proves that they hold it.

    Each command that names a token raises LockLost if it is not the one of the present
    holder, and JobNotFound if the job is gone.
    """

    @command
    def pop(self, queue: str, worker: str, count: int = 1) -> Command[list[J]]:
        """Take up to `count` (at most 250) jobs of a queue, locked."""
        args = (
            arguments.queue(queue),
            arguments.name("worker", worker),
            jobs_wanted(count),
        )
        return Command("pop", args, "write", self._read_jobs)

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
            return Command("beat", (*head, len(jobs), *words), "drain", _read_beat)

        sizes = tuple(map(len, parts))
        return CommandSequence(tuple(map(beat, parts)), sizes, _add_beats)

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

        With `held` its run counts as started: `held` seconds after the hand-out.
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


def _read_beat(reply: list[Any]) -> Beat:
    """Read the reply to beat."""
    lost, orders = reply
    return Beat(lost, orders)


def _add_beats(answers: list[Beat]) -> Beat:
    """Return one answer for the parts of a split beat."""
    return Beat(
        [jid for answer in answers for jid in answer.lost],
        [order for answer in answers for order in answer.orders],
    )


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
