"""Dispatch of everything that is enqueued: at once, or on commit.

What is enqueued together is sent at once, or when the transaction that is open in its
database commits: never after a rollback, also not after that of a savepoint. Tests put
another object in the place of `dispatcher`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db import connections as databases
from django.utils.connection import ConnectionDoesNotExist

from django_qless import conf
from django_qless.conf import in_tests
from django_qless.core import NotReplicated
from django_qless.enqueue import at_once, outage
from django_qless.enqueue.dispatchable import Dispatchable
from django_qless.exceptions import InvalidOption
from django_qless.job_types.commit import Commit, OnCommit
from django_qless.outbox import entries
from django_qless.signals import job_enqueued

logger = logging.getLogger("django_qless")

#: What the option `on_commit` says for the outbox.
OUTBOX = "outbox"


class Dispatcher:
    """Sends to the server, at once or on commit."""

    def is_in_transaction(self, database: str) -> bool:
        """Return whether what is sent now must await a commit of this database."""
        return databases[database].in_atomic_block

    def on_commit(self, database: str, callback: Callable[[], None]) -> None:
        """Call a function when the open transaction of a database commits."""
        databases[database].on_commit(callback)

    #: Sends it now.
    send: Callable[[Dispatchable], None] = staticmethod(methodcaller("send"))

    async def asend(self, dispatchable: Dispatchable) -> None:
        """Send it now, from asynchronous code."""
        await dispatchable.asend()

    def send_each(self, some: Sequence[Dispatchable]) -> None:
        """Send several batches now, all at the same time."""
        at_once.send_each(some)

    async def asend_each(self, some: Sequence[Dispatchable]) -> None:
        """Send several batches now, from asynchronous code."""
        await at_once.asend_each(some)

    def send_on_commit(self, dispatchable: Dispatchable) -> None:
        """Send what has waited for a commit.

        That it is not replicated yet is logged: raised here, it would keep the others from
        being sent.
        """
        try:
            dispatchable.send_on_commit()
        except NotReplicated as error:
            _log_late(error)

    def send_each_on_commit(self, some: Sequence[Dispatchable]) -> None:
        """Send several batches that have waited for one commit, at the same time."""
        if not _may_go_at_once(some):
            at_once.send_in_turn(some, self.send_on_commit)
            return
        try:
            at_once.send_each(some, on_commit=True)
        except NotReplicated as error:
            _log_late(error)


def _log_late(error: NotReplicated) -> None:
    # A schedule has an id, what it makes a jid.
    ids = [getattr(handle, "jid", None) or handle.id for handle in error.handles]
    logger.error(
        "enqueued on commit, but not replicated: %s: %s", ", ".join(ids), error
    )


def _may_go_at_once(some: Sequence[Dispatchable]) -> bool:
    """Return whether these may be sent at the same time, by several threads.

    Receivers of signals, and what ON_OUTAGE does, belong into the thread that enqueues.
    """
    return (
        len(some) > 1
        and not job_enqueued.receivers
        and all(conf.alias(each.alias).on_outage == "raise" for each in some)
    )


#: All that is enqueued goes through this object, in all threads.
dispatcher = Dispatcher()


def commit_database(
    on_commit: bool | str | None, of_row: str = DEFAULT_DB_ALIAS
) -> str | None:
    """Return the database whose commit the option `on_commit` lets a job await.

    The one that it names, else that of its row, by default the default one; None: it is
    enqueued at once.
    """
    if on_commit is False:
        return None
    if isinstance(on_commit, str) and on_commit != OUTBOX:
        return on_commit
    return of_row


def uses_outbox(on_commit: bool | str | None, alias: str) -> bool:
    """Return whether the outbox is used, by the option `on_commit` or by the alias."""
    if on_commit is None:
        return conf.alias(alias).on_commit == OUTBOX
    return on_commit == OUTBOX


def open_transaction(whose: str, names: Collection[str]) -> str | None:
    """Return the one of these databases in which a transaction is open, None without one.

    `whose` names the job in messages. Raises InvalidOption for an unknown database, and if
    transactions are open in several: what is enqueued together waits for one commit.
    """
    in_tests.begin()
    try:
        found = [name for name in names if dispatcher.is_in_transaction(name)]
    except ConnectionDoesNotExist:
        known = ", ".join(databases)
        raise InvalidOption(
            f"{whose}: on_commit={' or '.join(names)!r} is not in DATABASES; there are: "
            f"{known}."
        ) from None
    if len(found) > 1:
        raise InvalidOption(
            f"{whose}: transactions are open in {' and '.join(sorted(found))}, and what is "
            "enqueued together waits for one commit. Enqueue the jobs of each database by "
            "themselves, or name one database by on_commit=."
        )
    return found[0] if found else None


def send(dispatchable: Dispatchable, transaction: str | None = None) -> None:
    """Send it now, or when the database of an open transaction commits."""
    if transaction:
        _send_after_commit([dispatchable], transaction)
    else:
        dispatcher.send(outage.guarded(dispatchable))


async def asend(dispatchable: Dispatchable, transaction: str | None = None) -> None:
    """Asynchronous version of `send`."""
    if transaction:
        _send_after_commit([dispatchable], transaction)
    else:
        await dispatcher.asend(outage.guarded(dispatchable))


def send_each(some: Sequence[tuple[Dispatchable, str | None]]) -> None:
    """Send several batches, each now or when its database commits.

    At the same time, where it may be.
    """
    now = _waiting_apart(some)
    if _may_go_at_once(now):
        dispatcher.send_each(now)
        return
    at_once.send_in_turn([outage.guarded(each) for each in now], dispatcher.send)


async def asend_each(some: Sequence[tuple[Dispatchable, str | None]]) -> None:
    """Asynchronous version of `send_each`."""
    now = [outage.guarded(each) for each in _waiting_apart(some)]
    if len(now) == 1:
        await dispatcher.asend(now[0])
    elif now:
        await dispatcher.asend_each(now)


def _waiting_apart(
    some: Sequence[tuple[Dispatchable, str | None]],
) -> list[Dispatchable]:
    """Let those wait that await a commit; return the others."""
    waiting: dict[str, list[Dispatchable]] = {}
    now = []
    for each, transaction in some:
        if transaction:
            waiting.setdefault(transaction, []).append(each)
        else:
            now.append(each)
    for database, those in waiting.items():
        _send_after_commit(those, database)
    return now


def _send_after_commit(some: Sequence[Dispatchable], database: str) -> None:
    """Send these when this database has committed; never if it rolls back.

    They are sent by the dispatcher that was in use when they were enqueued.
    """
    then = dispatcher
    commits = [Commit(outbox=each.outbox) for each in some]
    for each, commit in zip(some, commits, strict=True):
        for handle in each.awaiting:
            handle._await(commit)
    kept = [each for each in some if each.outbox]
    written: Sequence[Any] = entries.keep(kept, database) if kept else ()
    in_outbox = [commit for commit in commits if commit.outbox]
    for each, commit in zip(written, in_outbox, strict=True):
        send = partial(then.send_on_commit, each)
        then.on_commit(database, OnCommit(send, [commit]))
    others = [outage.guarded(each) for each in some if not each.outbox]
    if not others:
        return
    if len(others) == 1:
        send = partial(then.send_on_commit, others[0])
    else:
        send = partial(then.send_each_on_commit, others)
    elsewhere = [commit for commit in commits if not commit.outbox]
    then.on_commit(database, OnCommit(send, elsewhere))
