"""The handle of an entity: its state, its payloads, its last error."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django_qless.conf.connections import connections
from django_qless.core import Client
from django_qless.core.commands.entities import EntityRecord, entity_jid
from django_qless.job_types.commit import ROLLED_BACK, AwaitsCommit

if TYPE_CHECKING:
    from django_qless.core.request import Request


class EntityHandle(AwaitsCommit):
    """An entity of a queue. Properties do no I/O: `refresh()` returns a new snapshot."""

    def __init__(
        self, alias: str, queue: str, entity: str, record: EntityRecord | None = None
    ) -> None:
        self.alias = alias
        self.queue = queue
        self.entity = entity
        self.pending = False
        self.record = record

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.entity} in {self.queue}>"

    @property
    def jid(self) -> str:
        """The id of the job that carries it."""
        return entity_jid(self.queue, self.entity)

    @property
    def state(self) -> str:
        """`waiting`, `scheduled`, `running`, `complete`, `dead` or `gone`.

        Of a handle that was not refreshed: `pending` before the commit, `rolled back` without
        one, else `pushed`.
        """
        if self.record is None:
            if self._rolled_back:
                return ROLLED_BACK
            return "pending" if self.pending else "pushed"
        if self.record.job is not None:
            return str(self.record.job["state"])
        return "gone" if self.record.dead is None else "dead"

    @property
    def payload_count(self) -> int:
        """Number of payloads that wait, without those of the present run."""
        return int(self._job.get("payloads", 0))

    @property
    def running_count(self) -> int:
        """Number of payloads that the present run has."""
        return int(self._job.get("taken", 0))

    @property
    def dead_count(self) -> int:
        """Number of payloads that are dead."""
        dead = self.record.dead if self.record else None
        return int(dead["payloads"]) if dead else 0

    @property
    def retry_count(self) -> int:
        """-1 if its last run did not fail; then 0, and one more for each failure."""
        return int(self._job.get("count", -1))

    @property
    def next_run(self) -> datetime | None:
        """When it may run, or since when it is due; None if it does not wait."""
        if self.state not in ("waiting", "scheduled"):
            return None
        return datetime.fromtimestamp(self._job["due"], UTC)

    @property
    def last_error(self) -> str:
        """The message of its last failure, "" if there is none."""
        failure = self._job.get("failure") or {}
        if not failure and self.record and self.record.dead:
            failure = self.record.dead
        return str(failure.get("message", ""))

    def payloads(self) -> list[Any]:
        """Return the payloads that wait, in order: as many as the snapshot has."""
        return [payload for _, payload in self.record.waiting] if self.record else []

    def refresh(self) -> EntityHandle:
        """Ask the server; return a new handle."""
        return self._of(connections[self.alias].run(self._request()))

    async def arefresh(self) -> EntityHandle:
        """Ask the server, from asynchronous code; return a new handle."""
        return self._of(await connections.aclient(self.alias).run(self._request()))

    @property
    def _job(self) -> dict[str, Any]:
        return (self.record.job if self.record else None) or {}

    def _request(self) -> Request[EntityRecord]:
        request: Request[EntityRecord] = Client.entity.build(
            None, self.queue, self.entity
        )
        return request

    def _of(self, record: EntityRecord) -> EntityHandle:
        return EntityHandle(self.alias, self.queue, self.entity, record)
