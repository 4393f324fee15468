"""Waiting for a commit: what the handles of what is enqueued in a transaction know of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

ROLLED_BACK = "rolled back"


class Commit:
    """The commit that something waits for."""

    __slots__ = ("is_lost", "outbox")

    def __init__(self, *, outbox: bool) -> None:
        #: True once it can no longer come.
        self.is_lost = False
        #: True if it waits in an outbox: what was committed there is sent in any case.
        self.outbox = outbox


class OnCommit:
    """A callback of `on_commit`, which the database drops when it rolls back."""

    __slots__ = ("_callback", "_commits")

    def __init__(self, callback: Callable[[], None], commits: Sequence[Commit]) -> None:
        self._callback = callback
        self._commits = commits

    def __call__(self) -> None:
        self._commits = ()
        self._callback()

    def __del__(self) -> None:
        # Nothing else holds it: it was dropped with the transaction, or to a savepoint.
        for commit in self._commits:
            commit.is_lost = True


class AwaitsCommit:
    """Base of handles of what may wait for a commit."""

    __slots__ = ("_commit", "_pending")

    _commit: Commit
    _pending: bool

    @property
    def pending(self) -> bool:
        """True while it waits for the commit of a transaction to be enqueued."""
        return self._pending and not self._rolled_back

    @pending.setter
    def pending(self, value: bool) -> None:
        self._pending = value

    @property
    def _rolled_back(self) -> bool:
        """True if it waited for the commit of a transaction that was rolled back."""
        return self._pending and hasattr(self, "_commit") and self._commit.is_lost

    def _await(self, commit: Commit) -> None:
        """Note the commit that it waits for."""
        self._commit = commit
