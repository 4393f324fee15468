"""Commands that put jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import arguments
from ..calls import Call, Calls, command
from ..put import Put, batches, options


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
    ) -> Call[str | None]:
        """Put a job into a queue; a job that exists is moved there and begins anew.

        `worker` is who asks: the holder of a running job is told when another takes it
        away. `data` is JSON text, `delay` seconds; the other options are those of Put.
        Returns the jid, or None when `absent` was given and the job exists. Raises
        JobNotFound for an unknown dependency, DependencyCycle, ServerFull.
        """
        args = (
            worker,
            arguments.queue(queue),
            arguments.jid(jid),
            arguments.name("klass", klass),
            arguments.data(data),
            arguments.number("delay", delay),
            *options(priority, retries, tags, depends, context, absent, open),
        )
        return Call("put", args, "write")

    @command
    def put_many(self, worker: str, items: Iterable[Put]) -> Calls[list[str]]:
        """Put many jobs, in the order given; popped in that order at equal priority.

        Each thousand, or MiB, is one call of its own: put whole, or not at all. Returns
        the ids of the jobs that were left alone because they exist (`absent`). Raises as
        put does; `done` of the error says how many items were put before it.
        """
        parts = list(batches(items))
        return Calls(
            tuple(Call("put.many", (worker, part), "write") for _, part in parts),
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
        args = (
            worker,
            arguments.queue(queue),
            arguments.jid(jid),
            arguments.name("klass", klass),
            arguments.data(data),
            arguments.number("delay", delay),
            *options(priority, retries, tags, depends, context, False, False),
        )
        return Call("requeue", args, "write")


def _joined(results: list[Any]) -> list[str]:
    return [jid for left_alone in results for jid in left_alone]
