"""Transactions inside of TestCase, which never commits.

A TestCase wraps each test in transactions that it rolls back. Those do not count: what is
put in a test that has begun no transaction of its own goes out at once. What is put inside
of the project's own `atomic()` goes out where that would commit: when the outermost block
of the project ends well. What a rollback, also to a savepoint, undoes is dropped.

In a TransactionTestCase transactions commit, and nothing here plays a part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connections as databases
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import Atomic


class AtCommit:
    """Something to be done at a commit, once, whoever gets there first.

    In a TestCase it stands among the callbacks of `on_commit` as well: there a rollback
    to a savepoint drops it, and `captureOnCommitCallbacks` finds it.
    """

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def __call__(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def drop(self) -> None:
        """Never do it."""
        self._callback = None

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self._callback is not None


def is_open(database: str) -> bool:
    """Return whether the project has begun a transaction in this database."""
    return _has_own_block(databases[database])


def at_commit(database: str, callback: Callable[[], None]) -> None:
    """Call this where the project's open transaction commits, or would commit."""
    databases[database].on_commit(AtCommit(callback))


def watch() -> None:
    """Notice from now on when blocks of `atomic()` end. May be called again."""
    if Atomic.__exit__ is _exit:
        return
    global _original
    _original = Atomic.__exit__
    Atomic.__exit__ = _exit  # type: ignore[method-assign]


def _exit(self: Atomic, *exc_info: Any) -> None:
    _original(self, *exc_info)
    connection = databases[self.using or "default"]
    if connection.run_on_commit and connection.in_atomic_block:
        _committed(connection)


def _committed(connection: BaseDatabaseWrapper) -> None:
    """Do what waits for the project's transaction if it has just ended in a TestCase."""
    if _has_own_block(connection):
        return
    waiting = [
        callback
        for _, callback, *_ in connection.run_on_commit
        if isinstance(callback, AtCommit) and callback.is_open
    ]
    if connection.needs_rollback:
        # atomic(savepoint=False) has failed. Its rollback is left to the TestCase.
        for each in waiting:
            each.drop()
    try:
        for each in waiting:
            each()
    finally:
        # As with Django's callbacks: when one raises the others are lost.
        for each in waiting:
            each.drop()


def _has_own_block(connection: BaseDatabaseWrapper) -> bool:
    return any(
        not getattr(block, "_from_testcase", False)
        for block in connection.atomic_blocks
    )


_original: Callable[..., None] = Atomic.__exit__
