"""Commands that put jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .. import arguments
from ..protocol import Argument
from ..put import Put, PutMany, batches, row
from ..request import Command, CommandSequence, command, read_pairs


class PutCommands:
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
        on_failure: str = "",
        unique: str | None = None,
        unique_until: str | int | float = "end",
        conflict: str = "keep",
        debounce: int | float | None = None,
        expires: int | float | None = None,
        at: int | float | None = None,
        expires_at: int | float | None = None,
        workflow: str | None = None,
        unique_aliases: Sequence[str] = (),
    ) -> Command[str | None]:
        """Put a job into a queue; an existing job is moved there and restarted.

        `worker` is the caller: the holder of a running job gets an event when another
        takes it away. `data` is JSON text, `delay` seconds; the other options are those of Put.
        Returns the jid of the job that stands for it: another one than given if that
        holds the key `unique`; None when `absent` was given and the job exists. Raises
        JobNotFound for an unknown dependency, DependencyCycle, ServerFull, and WrongState
        for a dependency that has failed when that would cancel the job, or for an ended job
        whose unique key another job holds by now.
        """
        item = Put(
            jid=jid,
            queue=queue,
            klass=klass,
            data=data,
            delay=delay,
            priority=priority,
            retries=retries,
            tags=tags,
            depends=depends,
            context=context,
            absent=absent,
            on_failure=on_failure,
            unique=unique,
            unique_until=unique_until,
            conflict=conflict,
            debounce=debounce,
            expires=expires,
            at=at,
            expires_at=expires_at,
            workflow=workflow,
            unique_aliases=unique_aliases,
        )
        return Command("put", (worker, *row(item)), "write")

    @command
    def put_many(self, worker: str, items: Iterable[Put]) -> CommandSequence[PutMany]:
        """Put many jobs, in the order given; popped in that order at equal priority.

        Each thousand, or MiB, is one command: put whole, or not at all. Returns which were
        skipped because they exist (`absent`), and for which another job stands (`unique`).
        Within a command, a dependency on a job that another one stands for is one on the
        other. Raises as put does; `done` of the error says how many items were put before
        it.
        """
        return _batched("put.many", (worker,), items)

    @command
    def spawn(
        self, jid: str, token: str, worker: str, items: Iterable[Put]
    ) -> CommandSequence[PutMany]:
        """Put jobs on behalf of a held job; its dependents wait for them, too.

        So do later dependents, and jobs on which its dependents come to depend when it has
        ended. They belong to its workflow, if it has one. Those that it has spawned since it
        was put are skipped. Splits and returns as put_many does. Raises LockLost, and as
        put_many does.

        No cycle can arise: a dependent that one of them waits for itself does not wait for
        that one.
        """
        held = arguments.existing("jid", jid), arguments.existing("token", token)
        return _batched("spawn", (*held, worker), items)

    @command
    def put_once(
        self, name: str, jid: str, token: str, worker: str, items: Iterable[Put]
    ) -> CommandSequence[PutMany]:
        """Put jobs on behalf of a held job, each once, however often that job runs.

        Jobs that were put before under this name are skipped, in any state.
        The name is forgotten when the held job is complete or cancelled, and a week after
        its last use. Splits and returns as put_many does. Raises LockLost, and as put_many
        does.
        """
        held = arguments.existing("jid", jid), arguments.existing("token", token)
        head = (arguments.existing("name", name), *held, worker)
        return _batched("put.once", head, items)

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
    ) -> Command[str]:
        """Put an existing job again, as `put` does. Raises JobNotFound."""
        item = Put(
            jid=jid,
            queue=queue,
            klass=klass,
            data=data,
            delay=delay,
            priority=priority,
            retries=retries,
            tags=tags,
            depends=depends,
            context=context,
        )
        return Command("requeue", (worker, *row(item)), "write")


def _batched(
    name: str, head: tuple[Argument, ...], items: Iterable[Put]
) -> CommandSequence[PutMany]:
    parts = list(batches(items))
    return CommandSequence(
        tuple(
            Command(name, (*head, *rows), "write", _read_put_many) for _, rows in parts
        ),
        tuple(number for number, _ in parts),
        _add_put_many,
    )


def _read_put_many(reply: list[list[str]]) -> PutMany:
    skipped, duplicates = reply
    return PutMany(skipped, read_pairs(duplicates))


def _add_put_many(answers: list[PutMany]) -> PutMany:
    return PutMany(
        [jid for answer in answers for jid in answer.skipped],
        {given: jid for each in answers for given, jid in each.duplicates.items()},
    )
