"""A Task on its way to the server, which is announced when it has arrived."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django_qless.puts.parcel import Item, Parcel, is_news
from django_qless.tasks import envelope, frameworks


class TaskParcel(Parcel):
    """One Task: brings its TaskResult up to date, and sends `task_enqueued`."""

    __slots__ = ("result", "sender")

    def __init__(self, item: Item, result: Any, sender: type) -> None:
        super().__init__((item,))
        self.result = result
        #: The class of the backend.
        self.sender = sender

    def send(self) -> None:
        """Put it, and announce that."""
        super().send()
        self._announce()

    async def asend(self) -> None:
        """Put it from asynchronous code, and announce that."""
        await super().asend()
        self._take_note()
        if is_news(self.items[0]):
            await self._signal().asend(self.sender, task_result=self.result)

    def send_late(self) -> None:
        """Put it at a commit, and announce that, unless it is a duplicate there."""
        super().send_late()
        self._take_note()

    def delivered(
        self, instead: Mapping[str, str] | None = None, left: Collection[str] = ()
    ) -> None:
        """Take note that it is put, and announce that."""
        super().delivered(instead, left)
        self._announce()

    def _announce(self) -> None:
        self._take_note()
        if is_news(self.items[0]):
            self._signal().send(self.sender, task_result=self.result)

    def _take_note(self) -> None:
        """Bring the result up to date; another job, put before, may stand for this one."""
        jid = self.items[0].handle.jid
        enqueued = envelope.moment(envelope.put_at(jid))
        envelope.change(self.result, id=jid, enqueued_at=enqueued)

    def _signal(self) -> Any:
        return frameworks.of(self.result.task).signals.task_enqueued  # type: ignore[union-attr]
