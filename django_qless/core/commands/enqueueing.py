"""Commands that put jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import arguments
from ..calls import Call, Calls, command
from ..protocol import Argument
from ..put import Put, PutMany, batches, options


class Enqueueing:
    """Commands that put jobs."""

    @command
    def put(
        self,
        worker: str,
        queue: str,
        jid: str,
        klass: str,
        data: str,
        delay: int | float = 0,
        *,
        priority: int | float | None = None,
        retries: int | None = None,
        tags: Sequence[str] | None = None,
        depends: Sequence[str] = (),
        context: str | None = None,
        absent: bool = False,
        open: bool = False,  # noqa: A002 (the option's name)
        on_failure: str = "",
        unique: str | None = None,
        unique_until: str | int | float = "end",
        conflict: str = "keep",
        debounce: int | float | None = None,
        debounce_max: int | float | None = None,
        expires: int | float | None = None,
        at: int | float | None = None,
        expires_at: int | float | None = None,
        workflow: str | None = None,
    ) -> Call[str | None]:
        """Put a job into a queue; a job that exists is moved there and begins anew.

        `worker` is who asks: the holder of a running job is told when another takes it
        away. `data` is JSON text, `delay` seconds; the other options are those of Put.
        Returns the jid of the job that stands for it: another one than given if that
        holds the key `unique`; None when `absent` was given and the job exists. Raises
        JobNotFound for an unknown dependency, DependencyCycle, DuplicateJob, WrongState
        for a dependency that has failed when that would cancel the job, ServerFull.
        """
        item = Put(
            *(jid, queue, klass, data, delay, priority, retries, tags, depends),
            *(context, absent, open, on_failure, unique, unique_until, conflict),
            *(debounce, debounce_max, expires, at, expires_at, workflow),
        )
        return Call("put", _single(worker, item), "write")

    @command
    def put_many(self, worker: str, items: Iterable[Put]) -> Calls[PutMany]:
        """Put many jobs, in the order given; popped in that order at equal priority.

        Each thousand, or MiB, is one call of its own: put whole, or not at all. Returns
        which were left alone because they exist (`absent`), and for which another job
        stands (`unique`). Within a call, a dependency on a job that another one stands for
        is one on the other. Raises as put does; `done` of the error says how many items
        were put before it.
        """
        parts = list(batches(items))
        return Calls(
            tuple(
                Call("put.many", (worker, part), "write", _put_many)
                for _, part in parts
            ),
            tuple(number for number, _ in parts),
            _joined,
        )

    @command
    def spawn(
        self, jid: str, token: str, worker: str, items: Iterable[Put]
    ) -> Calls[PutMany]:
        """Put jobs for a job that one holds: who depends on it waits for them as well.

        Also what is put later and depends on it, and also what its dependents come to
        depend on when it has ended. They belong to its workflow, if it has one. Splits and
        returns as put_many does. Raises LockLost, and as put_many does.

        No circle can come about: whoever would have to wait for one of them when the job
        is complete, while that waits for him, does not wait for it.
        """
        names = (arguments.known("jid", jid), arguments.known("token", token), worker)
        parts = list(batches(items))
        return Calls(
            tuple(
                Call("spawn", (*names, part), "write", _put_many) for _, part in parts
            ),
            tuple(number for number, _ in parts),
            _joined,
        )

    @command
    def requeue(
        self,
        worker: str,
        queue: str,
        jid: str,
        klass: str,
        data: str,
        delay: int | float = 0,
        *,
        priority: int | float | None = None,
        retries: int | None = None,
        tags: Sequence[str] | None = None,
        depends: Sequence[str] = (),
        context: str | None = None,
    ) -> Call[str]:
        """Put a job that must exist: as put does, but raises JobNotFound if it does not."""
        item = Put(
            *(jid, queue, klass, data, delay, priority, retries, tags, depends, context)
        )
        return Call("requeue", _single(worker, item), "write")


def _single(worker: str, item: Put) -> tuple[Argument, ...]:
    return (
        worker,
        arguments.queue(item.queue),
        arguments.jid(item.jid),
        arguments.name("klass", item.klass),
        arguments.data(item.data),
        arguments.number("delay", item.delay),
        *options(item),
    )


def _put_many(reply: list[list[str]]) -> PutMany:
    left, instead = reply
    return PutMany(left, dict(zip(instead[::2], instead[1::2], strict=True)))


def _joined(results: list[Any]) -> PutMany:
    left = [jid for result in results for jid in result.left]
    instead = {
        given: jid for result in results for given, jid in result.instead.items()
    }
    return PutMany(left, instead)
