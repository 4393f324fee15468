"""Commands about detached jobs, and about what ended jobs leave."""

from __future__ import annotations

from .. import arguments
from ..listings import DetachedRun
from ..request import Command, command


class DetachedCommands:
    """Commands about jobs whose processes outlive the worker that has started them."""

    @command
    def keep_detached(
        self, worker: str, jid: str, token: str, text: str
    ) -> Command[float]:
        """Renew a detached job's lock, make the worker its holder, tell of its process.

        `text` is the JSON text of an object, kept for a day (see DetachedRun). Returns
        the seconds for which the lock holds. Raises LockLost, JobNotFound.
        """
        args = (
            arguments.name("worker", worker),
            arguments.existing("jid", jid),
            arguments.existing("token", token),
            arguments.json_object("text", text),
        )
        return Command("detached.keep", args, "drain", float)

    @command
    def detached_run(self, jid: str) -> Command[DetachedRun | None]:
        """Return the latest run of a detached job; None if there was none for a day."""
        args = (arguments.existing("jid", jid),)
        return Command("detached.get", args, "read", DetachedRun.read)

    @command
    def forget(self, jid: str) -> Command[bool]:
        """Delete an ended job with its result, failure and output.

        Returns False if there was nothing left. Raises WrongState if the job has not ended,
        HasDependents if it has failed and others wait for it.
        """
        return Command("forget", (arguments.existing("jid", jid),), "drain", bool)
