"""The base of handles of things with an id that may not be enqueued yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_qless.conf.connections import connections
from django_qless.core.exceptions import ServerBusy
from django_qless.core.states import ENDED
from django_qless.core.waiting import time_left
from django_qless.exceptions import JobGone, NotPut, ResultNotReady
from django_qless.job_types.commit import AwaitsCommit

if TYPE_CHECKING:
    from typing import Self

    from django_qless.core import AsyncClient, Client
    from django_qless.core.request import Steps


class Handle(AwaitsCommit):
    """Base of handles: of a job, a workflow or a schedule of one alias."""

    __slots__ = ("alias",)
    #: What it is, in messages and for the core.
    _kind: Any = "job"
    #: Whether there may be one of this id, from before, after a rollback.
    _outlives_rollback = False

    alias: str
    """The alias of QLESS where it is."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return (self.alias, self._id) == (other.alias, other._id)

    def __hash__(self) -> int:
        return hash((self.alias, self._id))

    @property
    def name(self) -> str:
        """The name of what it is a handle of."""
        raise NotImplementedError

    @property
    def state(self) -> str:
        """The state at the time of the snapshot."""
        raise NotImplementedError

    def _check_enqueued(self) -> None:
        """Raise NotPut if it waits for a commit, JobGone if that was rolled back."""
        if self.pending:
            raise NotPut(f"{self._label} is not enqueued yet")
        # The outbox may have kept it all the same: the server knows.
        if self._rolled_back and not (self._commit.outbox or self._outlives_rollback):
            raise JobGone(f"{self._label} was not enqueued, because of a rollback")

    @property
    def _id(self) -> str:
        raise NotImplementedError

    @property
    def _label(self) -> str:
        return f"{self._kind.capitalize()} {self._id} ({self.name})"

    def _client(self) -> Client:
        self._check_enqueued()
        return connections[self.alias]

    def _aclient(self) -> AsyncClient:
        self._check_enqueued()
        return connections.aclient(self.alias)

    def _reading(self, client: Any) -> Steps[Any]:
        """Return a new handle with the current state."""
        raise NotImplementedError

    def _waiting(self, client: Any, timeout: float | None) -> Steps[Self]:
        """Wait until it has ended; return a handle with its final state."""
        busy: ServerBusy | None = None
        for left in time_left(timeout):
            try:
                if left != 0:
                    yield client.await_ended([self._id], left, self._kind)
                now: Self = yield from self._reading(client)
            except ServerBusy as error:
                busy = error  # it will be back: a slot moves, or a replica takes over
                continue
            if now.state in ENDED:
                return now
            busy = None
        if busy is not None:
            raise busy
        waited = f" after {timeout:g} s" if timeout else ""
        raise ResultNotReady(now._going_on(waited))

    def _going_on(self, waited: str) -> str:
        """Return the message that it has not ended yet."""
        raise NotImplementedError
