"""Dispatch of everything that is enqueued: at once, or on commit.

What is enqueued together is sent at once, or when the transaction that is open in its
database commits: never after a rollback, also not after that of a savepoint. Tests put
another object in the place of `dispatcher`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
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

ONLY_DEFAULT = (DEFAULT_DB_ALIAS,)

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


def commit_databases(on_commit: bool | str | None, *more: str) -> tuple[str, ...]:
    """Return the databases whose commits the option `on_commit` lets a job await.

    By default these are the default one and `more`, those of its rows; False: none. The
    outbox may name one: "outbox:archive".
    """
    if on_commit is False:
        return ()
    usual = on_commit is None or on_commit == OUTBOX
    if isinstance(on_commit, str) and not usual:
        return (on_commit.removeprefix(f"{OUTBOX}:"),)
    if usual and more:
        return tuple(dict.fromkeys((DEFAULT_DB_ALIAS, *more)))
    return ONLY_DEFAULT


def uses_outbox(on_commit: bool | str | None, alias: str) -> bool:
    """Return whether the outbox is used, by the option `on_commit` or by the alias."""
    if on_commit is None:
        return conf.alias(alias).on_commit == OUTBOX
    return isinstance(on_commit, str) and is_outbox(on_commit)


def is_outbox(text: str) -> bool:
    """Return whether the option `on_commit` asks for the outbox by this text."""
    return text == OUTBOX or text.startswith(f"{OUTBOX}:")


def open_transactions(whose: str, names: Sequence[str]) -> list[str]:
    """Return those of these databases in which a transaction is open.

    `whose` names the job in messages. Raises InvalidOption for an unknown database.
    """
    in_tests.begin()
    is_open = dispatcher.is_in_transaction
    try:
        if len(names) == 1:
            return [names[0]] if is_open(names[0]) else []
        return [name for name in names if is_open(name)]
    except ConnectionDoesNotExist:
        known = ", ".join(databases)
        raise InvalidOption(
            f"{whose}: on_commit={' or '.join(names)!r} is not in DATABASES; there are: "
            f"{known}."
        ) from None


def send(dispatchable: Dispatchable, transactions: Sequence[str] = ()) -> None:
    """Send it now, or when these databases, of `open_transactions`, commit."""
    if transactions:
        _send_after_commits([dispatchable], transactions)
    else:
        dispatcher.send(outage.guarded(dispatchable))


async def asend(dispatchable: Dispatchable, transactions: Sequence[str] = ()) -> None:
    """Asynchronous version of `send`."""
    if transactions:
        _send_after_commits([dispatchable], transactions)
    else:
        await dispatcher.asend(outage.guarded(dispatchable))


def send_each(some: Sequence[tuple[Dispatchable, Sequence[str]]]) -> None:
    """Send several batches, each now or when its databases commit.

    At the same time, where it may be.
    """
    now = _waiting_apart(some)
    if _may_go_at_once(now):
        dispatcher.send_each(now)
        return
    at_once.send_in_turn([outage.guarded(each) for each in now], dispatcher.send)


async def asend_each(some: Sequence[tuple[Dispatchable, Sequence[str]]]) -> None:
    """Asynchronous version of `send_each`."""
    now = [outage.guarded(each) for each in _waiting_apart(some)]
    if len(now) == 1:
        await dispatcher.asend(now[0])
    elif now:
        await dispatcher.asend_each(now)


def _waiting_apart(
    some: Sequence[tuple[Dispatchable, Sequence[str]]],
) -> list[Dispatchable]:
    """Let those wait that await a commit; return the others."""
    waiting: dict[tuple[str, ...], list[Dispatchable]] = {}
    now = []
    for each, transactions in some:
        if transactions:
            waiting.setdefault(tuple(transactions), []).append(each)
        else:
            now.append(each)
    for names, those in waiting.items():
        _send_after_commits(those, names)
    return now


def _send_after_commits(some: Sequence[Dispatchable], names: Sequence[str]) -> None:
    """Send these when all these databases have committed; never if one rolls back.

    They are sent by the dispatcher that was in use when they were enqueued. With the outbox
    one commit decides, for an entry is in one database: that of the job's rows.
    """
    then, database = dispatcher, names[-1]
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
    missing = set(names)

    def committed(name: str) -> None:
        missing.discard(name)
        if missing:
            return
        if len(others) == 1:
            then.send_on_commit(others[0])
        else:
            then.send_each_on_commit(others)

    elsewhere = [commit for commit in commits if not commit.outbox]
    for name in names:
        then.on_commit(name, OnCommit(partial(committed, name), elsewhere))
