"""What this process could not deliver: it comes before what the process enqueues later.

While the server is away, no call waits for it a second time: entries are left to the sweep.
When it is back the process delivers what it has left, a little with each call, until
nothing of it waits any more.
"""

from __future__ import annotations

import logging
import os
import time

from django.db import DatabaseError
from django.db import connections as databases

from django_qless.outbox import sweep
from django_qless.outbox.tables import entries, source

logger = logging.getLogger("django_qless")

#: Seconds from one try to the next.
PAUSE = 1.0
#: Entries that one call of `.delay()` may deliver for those before it.
SHARE = 50

# By database and alias, when to try again (monotonic); of the process with this id.
_behind: dict[tuple[str, str], float] = {}
_pid = os.getpid()


def begin(database: str, alias: str, error: Exception) -> None:
    """Note that something was left in the outbox."""
    _own()
    if (database, alias) not in _behind:
        logger.warning(
            "what is enqueued waits in the outbox: database=%s alias=%s error=%s",
            *(database, alias, error),
        )
    _behind[database, alias] = time.monotonic() + PAUSE


def is_over(database: str, alias: str, before: int | None = None) -> bool:
    """Return whether nothing of this process waits any more, before an entry.

    If something does, and it is time, delivers some of it.
    """
    due = _own().get((database, alias))
    if due is None:
        return True
    if time.monotonic() < due or databases[database].in_atomic_block:
        return False  # (What a rollback brings back would be delivered again.)
    # Only one thread tries.
    _behind[database, alias] = time.monotonic() + PAUSE
    try:
        left = _deliver_some(database, alias, before)
    except DatabaseError as busy:
        # The caller has committed: that others write just now is no error of theirs.
        logger.warning("later: outbox not swept: database=%s error=%s", database, busy)
        return False
    if left:
        return False
    _behind.pop((database, alias), None)
    logger.info("nothing waits any more: database=%s alias=%s", database, alias)
    return True


def _deliver_some(database: str, alias: str, before: int | None) -> bool:
    """Deliver some that this process has left; return whether more of them are left."""
    swept = sweep.sweep(database, alias, of=source(), before=before, most=SHARE)
    if swept.error is not None:
        return True
    own = entries(database).filter(alias=alias, source=source())
    if not (own if before is None else own.filter(id__lt=before)).exists():
        return False
    _behind[database, alias] = 0.0
    return True


def _own() -> dict[tuple[str, str], float]:
    """Return what is known of this process; a fork begins anew."""
    global _pid
    if _pid != os.getpid():
        _pid = os.getpid()
        _behind.clear()
    return _behind
