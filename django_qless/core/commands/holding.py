"""Commands of those who hold jobs: take them, keep them, end them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from .. import arguments
from ..calls import Call, Calls, HandsOutJobs, J, command, nothing
from ..exceptions import BadArgument
from ..protocol import Argument, Packed, pack
from ..reserved import (
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


class Holding(HandsOutJobs[J]):
    """Commands of those who hold jobs; the token of a job proves that they do.

    Each of those that name a token raises LockLost if it is not the one of the present
    holder, and JobNotFound if the job is gone.
    """

    @command
    def pop(self, queue: str, worker: str, count: int = 1) -> Call[list[J]]:
        """Take up to `count` (at most 250) jobs of a queue and return them, locked."""
        args = (arguments.queue(queue), arguments.name("worker", worker), _count(count))
        return Call("pop", args, "write", self._read_jobs)

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
    ) -> Call[Settled] | Calls[Settled]:
        """Settle jobs that are done, and take up to `count` (at most 250) new ones.

        The queues are asked in the order given; `*` and `?` stand for the known queues
        that match, in order of name, except those that match `exclude`. The next is asked
        when the one before is empty, or with `turns` when it has given its part of
        `count`. With `wait`, a worker that gets nothing is told on which keys to block,
        for at most so many seconds. A settlement that is refused (`Settled.refused`) does
        not stop the others. Works on a full server.
        """
        wish = _known_wish(worker, count, queues, exclude, wait, turns)
        parts = list(packed_settlements(settlements)) or [NO_SETTLEMENTS]
        if parts[-1][0] and parts[-1][0] + count > arguments.MOST_JOBS:
            parts.append(NO_SETTLEMENTS)
        last = wish.call(*parts[-1])
        if len(parts) == 1:
            return last
        calls = [wish.call(*part, reserving=False) for part in parts[:-1]]
        return Calls((*calls, last), tuple(part[0] for part in parts), add_settled)

    @command
    def beat(
        self,
        worker: str,
        info: str,
        held: Sequence[tuple[str, str] | tuple[str, str, float | None]],
    ) -> Calls[Beat]:
        """Prolong the locks of all jobs that a worker holds.

        They are given as (jid, token, held); `held` says for how many seconds the job lay
        in the worker's hands before its run began, and is None or left out if it did not.
        `info` is the JSON text of an object that describes the worker, or "". Returns
        which locks are lost, and what the worker is asked to do.
        """
        head = (
            arguments.name("worker", worker),
            arguments.json_object("info", info) if info else "",
        )
        most = arguments.MOST_ITEMS
        parts = [held[at : at + most] for at in range(0, len(held), most)] or [()]
        return Calls(
            tuple(
                Call(
                    "beat",
                    (
                        *head,
                        len(part),
                        *(word for job in part for word in _beaten(*job)),
                    ),
                    "drain",
                    read_beat,
                )
                for part in parts
            ),
            tuple(map(len, parts)),
            add_beats,
        )

    @command
    def heartbeat(self, jid: str, token: str, data: str | None = None) -> Call[int]:
        """Prolong the lock, and store new data if given; return when it ends now."""
        more = () if data is None else (arguments.data(data),)
        return Call("heartbeat", (*_held(jid, token), *more), "drain")

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
    ) -> Call[str]:
        """Complete a job, or this step of it: with `next` it goes on in that queue.

        `queue` is where it was taken from, `data` replaces its data, `result` is JSON
        text kept for `result_ttl` seconds. `held` is the seconds from the hand-out to the
        beginning of its run. Returns the job's new state.
        """
        pairs: list[Argument] = []
        if next is not None:
            pairs += "next", arguments.queue(next)
        if delay is not None:
            pairs += "delay", arguments.number("delay", delay)
        if depends:
            jids = arguments.all_known("depends", depends)
            pairs += "depends", arguments.to_json(jids)
        if result is not None:
            pairs += "result", arguments.text("result", result)
        if result_ttl is not None:
            pairs += "result_ttl", arguments.number("result_ttl", result_ttl)
        if held is not None:
            pairs += "held", held_text(held)
        args = (
            *_held(jid, token),
            arguments.known("queue", queue),
            arguments.data(data),
            *pairs,
        )
        return Call("complete", args, "drain")

    @command
    def fail(
        self,
        jid: str,
        token: str,
        group: str,
        message: str,
        data: str | None = None,
        held: int | float | None = None,
    ) -> Call[str]:
        """Fail a job for good: into a failure group, with a message. Returns the jid."""
        args = (
            *_held(jid, token),
            arguments.name("group", group),
            arguments.text("message", message),
        )
        more: tuple[Argument, ...] = () if data is None else (arguments.data(data),)
        if held is not None:
            more = (*(more or ("",)), held_text(held))
        return Call("fail", (*args, *more), "drain")

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
    ) -> Call[int]:
        """Give a job back to be tried again in `queue` after `delay` seconds.

        Returns how many retries remain; -1 says that there were none, and that it has
        failed, in `group` or in failed-retries-<queue>.
        """
        args: tuple[Argument, ...] = (
            arguments.known("jid", jid),
            arguments.queue(queue),
            _token(token),
            arguments.number("delay", delay),
        )
        if group or message or held is not None:
            args += (group, arguments.text("message", message))
        if held is not None:
            args += (held_text(held),)
        return Call("retry", args, "drain")

    @command
    def release(
        self,
        jid: str,
        token: str,
        delay: int | float = 0,
        held: int | float | None = None,
    ) -> Call[None]:
        """Give a job back to its queue as if it had not been taken.

        With `held` its run counts as begun, so many seconds after it was handed out.
        """
        args: tuple[Argument, ...] = (
            *_held(jid, token),
            arguments.number("delay", delay),
        )
        if held is not None:
            args += (held_text(held),)
        return Call("release", args, "drain", nothing)

    @command
    def progress(
        self, jid: str, token: str, fraction: int | float, text: str = ""
    ) -> Call[None]:
        """Say how far a job is: a fraction from 0 to 1, and a text for people."""
        if not 0 <= arguments.number("fraction", fraction) <= 1:
            raise BadArgument(f"fraction must be 0 to 1, not {fraction}")
        note = arguments.to_json([fraction, arguments.text("text", text)])
        return Call("progress", (*_held(jid, token), note), "drain", nothing)


class _Wish(NamedTuple):
    """What one worker's calls of settle have in common, checked and packed once."""

    worker: Packed
    reserve: Packed

    def call(
        self, number: int, settlements: Packed, *, reserving: bool = True
    ) -> Call[Settled]:
        reserve = self.reserve if reserving else NOTHING_WANTED
        args = (self.worker, number, settlements, reserve)
        return Call("settle", args, "drain", read_settled)


NOTHING_WANTED = pack((0, 0))


def _known_wish(
    worker: str,
    count: int,
    queues: Sequence[str],
    exclude: Sequence[str],
    wait: int | float | None,
    turns: bool,
) -> _Wish:
    if type(queues) is not str and type(exclude) is not str:
        try:
            return _remembered_wish(
                worker, count, tuple(queues), tuple(exclude), wait, turns
            )
        except TypeError:
            pass  # What is no list, or cannot be remembered, is refused below.
    return _wish(worker, count, queues, exclude, wait, turns)


def _wish(
    worker: str,
    count: int,
    queues: Sequence[str],
    exclude: Sequence[str],
    wait: int | float | None,
    turns: bool,
) -> _Wish:
    names = arguments.all_known("queues", queues)
    reserve: list[Argument] = [_count(count), len(names), *names]
    for pattern in arguments.all_known("exclude", exclude):
        reserve += "exclude", pattern
    if wait is not None:
        reserve += "wait", arguments.number("wait", wait)
    if turns:
        reserve += "turns", 1
    return _Wish(pack((arguments.name("worker", worker),)), pack(reserve))


_remembered_wish = lru_cache(maxsize=1000, typed=True)(_wish)


def _beaten(jid: str, token: str, held: float | None = None) -> tuple[str, str, str]:
    return jid, token, held_text(held)


def _held(jid: str, token: str) -> tuple[str, str]:
    return arguments.known("jid", jid), _token(token)


def _token(token: str) -> str:
    if not isinstance(token, str):
        raise BadArgument(
            f"token must be the text that came with the job, not "
            f"{arguments.shown(token)}"
        )
    return token


def _count(count: int) -> int:
    return min(arguments.whole("count", count, 0), arguments.MOST_JOBS)
