"""Errors of redis-py: the remedy and the exception for each, and repeated requests.

An error of any redis-py version is first reduced to one word, its code. The table says
for each code what may help, and which exception to raise when nothing does.

Every command that writes carries a request id, and the core answers a repeat of the last
request of a client with the reply it gave before. So after a lost connection the same
request is sent again, whatever it was; nothing is done twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from enum import Enum
from typing import TYPE_CHECKING, Any

from redis import exceptions as redis_exceptions

from . import exceptions
from .monotonic import monotonic

if TYPE_CHECKING:
    from .connection import BaseConnection
    from .request import Command, Steps
    from .script import Script

#: Errors of redis-py while a request is sent and its reply is read.
FAILURES = (redis_exceptions.RedisError, OSError)


class Remedy(Enum):
    """Ways to deal with an error before it is raised."""

    NONE = "raise"
    RELOAD = "load the core, then repeat"
    WAIT = "wait, then repeat"
    RECONNECT = "wait, then repeat on a new connection"
    FOLLOW = "repeat on the node of the cluster that is named"


TABLE: dict[str, tuple[Remedy, type[exceptions.QlessError]]] = {
    # The core's own refusals.
    "BADARG": (Remedy.NONE, exceptions.BadArgument),
    "TOOBIG": (Remedy.NONE, exceptions.TooBig),
    "NOJOB": (Remedy.NONE, exceptions.JobNotFound),
    "NOSCHEDULE": (Remedy.NONE, exceptions.ScheduleNotFound),
    "NOWORKER": (Remedy.NONE, exceptions.WorkerNotFound),
    "LOCKLOST": (Remedy.NONE, exceptions.LockLost),
    "STATE": (Remedy.NONE, exceptions.WrongState),
    "DEPENDENTS": (Remedy.NONE, exceptions.HasDependents),
    "CYCLE": (Remedy.NONE, exceptions.DependencyCycle),
    "STALE": (Remedy.NONE, exceptions.StaleRequest),
    "NOCOMMAND": (Remedy.NONE, exceptions.UnknownCommand),
    "FORMAT": (Remedy.NONE, exceptions.UnsupportedFormat),
    "COREFAILED": (Remedy.NONE, exceptions.CoreFailed),
    # A command inside the core that the server refuses to its user.
    "DENIED": (Remedy.NONE, exceptions.NotPermitted),
    # The server does not know the core (yet).
    "NOFUNCTION": (Remedy.RELOAD, exceptions.ServerError),
    # Nothing was executed, and it may be different in a moment.
    "BUSY": (Remedy.WAIT, exceptions.ServerBusy),
    "TRYAGAIN": (Remedy.WAIT, exceptions.ServerBusy),
    # Both nodes say it while a slot moves: see cluster.py.
    "ASK": (Remedy.WAIT, exceptions.ServerBusy),
    # The same, but after a failover the way may lead to another server.
    "CLUSTERDOWN": (Remedy.RECONNECT, exceptions.ServerBusy),
    "LOADING": (Remedy.RECONNECT, exceptions.ServerBusy),
    "NOREPLICAS": (Remedy.RECONNECT, exceptions.TooFewReplicas),
    "UNBLOCKED": (Remedy.RECONNECT, exceptions.ServerBusy),
    "MASTERDOWN": (Remedy.RECONNECT, exceptions.ServerBusy),
    "READONLY": (Remedy.RECONNECT, exceptions.ReadOnlyServer),
    # No reply: executed or not, the same request may be sent again.
    "LOST": (Remedy.RECONNECT, exceptions.ConnectionLost),
    "TIMEOUT": (Remedy.RECONNECT, exceptions.ConnectionLost),
    # Another node has the slot. A client that knows of no cluster cannot go there.
    "MOVED": (Remedy.FOLLOW, exceptions.ClusterRefused),
    # It would be the same next time.
    "UNKNOWN": (Remedy.NONE, exceptions.ServerTooOld),
    "NOPERM": (Remedy.NONE, exceptions.NotPermitted),
    "OOM": (Remedy.NONE, exceptions.ServerFull),
    "MISCONF": (Remedy.NONE, exceptions.CannotPersist),
    "NOAUTH": (Remedy.NONE, exceptions.NotAuthenticated),
    "WRONGPASS": (Remedy.NONE, exceptions.NotAuthenticated),
    "NOCLUSTER": (Remedy.NONE, exceptions.ClusterRefused),
    "CROSSSLOT": (Remedy.NONE, exceptions.ClusterRefused),
    "ERR": (Remedy.NONE, exceptions.ServerError),
}

#: Errors after which it is not known whether a request was executed, if it was sent.
NO_ANSWER = ("LOST", "TIMEOUT")

#: How the node of a cluster says that a slot is, or will be, at another one.
REDIRECTIONS = ("MOVED", "ASK")

# redis-py takes the code off the text of these. Subclasses come before their parents.
CODES: tuple[tuple[type[Exception], str], ...] = (
    (redis_exceptions.ReadOnlyError, "READONLY"),
    (redis_exceptions.OutOfMemoryError, "OOM"),
    (redis_exceptions.NoPermissionError, "NOPERM"),
    (redis_exceptions.BusyLoadingError, "LOADING"),
    (redis_exceptions.MasterDownError, "MASTERDOWN"),
    (redis_exceptions.ClusterDownError, "CLUSTERDOWN"),
    (redis_exceptions.TryAgainError, "TRYAGAIN"),
    (redis_exceptions.ClusterCrossSlotError, "CROSSSLOT"),
    (redis_exceptions.MovedError, "MOVED"),
    (redis_exceptions.AskError, "ASK"),
    (redis_exceptions.AuthenticationError, "NOAUTH"),
    (redis_exceptions.AuthenticationWrongNumberOfArgsError, "NOAUTH"),
    (redis_exceptions.TimeoutError, "TIMEOUT"),
    (redis_exceptions.ConnectionError, "LOST"),
)

# Errors whose text does not begin with a code, by words in it.
PHRASES = (
    ("Function not found", "NOFUNCTION"),
    ("unknown command", "UNKNOWN"),
    ("already exists", "EXISTS"),
    ("user_function", "COREFAILED"),
)


def code_of(error: BaseException) -> str:
    """Return the code of an error, one word."""
    for kind, code in CODES:
        if isinstance(error, kind):
            return code
    if not isinstance(error, redis_exceptions.ResponseError):
        return "LOST"
    text = str(error)
    word = text.split(" ", 1)[0]
    if word in TABLE and word != "ERR":
        return word
    for phrase, code in PHRASES:
        if phrase in text:
            return code
    return "ERR"


def to_qless_error(
    error: BaseException,
    code: str | None = None,
    *,
    reads: bool = False,
    sent: bool | None = None,
) -> exceptions.QlessError:
    """Return the QlessError for an error of redis-py.

    `reads` says that the command changes nothing; `sent` that it may have reached the
    server, in this attempt (None: as the error says) or in an earlier one.
    """
    code = code or code_of(error)
    text = str(error).removeprefix(f"{code} ")
    if code in REDIRECTIONS:
        # Without the word it is a number and an address.
        text = f"{code} {text}"
    kind = TABLE.get(code, TABLE["ERR"])[1]
    if kind is exceptions.ConnectionLost:
        if not (was_sent(error) if sent is None else sent):
            kind = exceptions.NotReached
        elif reads:
            kind = exceptions.ReadLost
    return kind(text)


def is_lasting(error: BaseException) -> bool:
    """Return whether an error would be the same on the next connection."""
    remedy, _ = TABLE.get(code_of(error), TABLE["ERR"])
    return remedy in (Remedy.NONE, Remedy.RELOAD)


def note_not_sent(error: BaseException) -> None:
    """Mark an error that came before anything was sent: no connection was opened."""
    error._qless_not_sent = True  # type: ignore[attr-defined]


def was_sent(error: BaseException) -> bool:
    """Return whether the request may have reached the server before this error."""
    return not getattr(error, "_qless_not_sent", False)


class Retries:
    """Decides what follows the errors of one request: a remedy, or the final exception."""

    def __init__(self, seconds: float, *, reads: bool, in_cluster: bool) -> None:
        self._deadline = monotonic() + seconds
        self._reads = reads
        self._in_cluster = in_cluster
        self._pauses = backoff()
        self._was_loaded = self._was_sent = self._is_unknown = False

    def after(self, error: BaseException) -> tuple[Remedy, float | None]:
        """Return the remedy, and seconds to wait before it (None: repeat at once).

        Raises the QlessError to raise if there is no remedy, or time is up.
        """
        code = code_of(error)
        self._was_sent = self._was_sent or was_sent(error)
        self._is_unknown = self._is_unknown or (code in NO_ANSWER and was_sent(error))
        remedy, _ = TABLE.get(code, TABLE["ERR"])
        is_refused = remedy is Remedy.FOLLOW and not self._in_cluster
        if remedy is Remedy.NONE or is_refused:
            raise to_qless_error(error, code) from error
        if remedy is Remedy.RELOAD and not self._was_loaded:
            self._was_loaded = True
            return remedy, None
        # A core that was loaded and is gone again is repeated with a pause, too.
        pause = next(self._pauses)
        if monotonic() + pause > self._deadline:
            raise self._final(error, code, remedy) from error
        return remedy, pause

    def _final(
        self, error: BaseException, code: str, remedy: Remedy
    ) -> exceptions.QlessError:
        last = to_qless_error(error, code, reads=self._reads, sent=self._was_sent)
        if self._is_unknown and not self._reads:
            # Nothing was written now, but an earlier attempt may have been executed.
            return exceptions.ConnectionLost(last.detail)
        if remedy is Remedy.FOLLOW:
            # The nodes do not agree yet where the slot is.
            return exceptions.ServerBusy(last.detail)
        return last


def repeat_request(
    error: BaseException,
    connection: BaseConnection,
    script: Script,
    command: Command[Any],
    request_id: str,
    seconds: float,
    *,
    exchange: Callable[[], Steps[Any]] | None = None,
) -> Steps[Any]:
    """Repeat a failed request until it is answered, refused, or time is up.

    `exchange` sends it, if not as usual. Returns the reply, raises a QlessError.
    """
    retries = Retries(
        seconds, reads=command.kind == "read", in_cluster=connection.is_of_cluster
    )
    while True:
        remedy, pause = retries.after(error)
        if pause is not None:
            if remedy is Remedy.FOLLOW:
                yield connection.follow(error)
            elif remedy is Remedy.RECONNECT:
                yield connection.leave()
            yield connection.pause(pause)
        try:
            if remedy is Remedy.RELOAD:
                yield from script.load(connection)
            if exchange is not None:
                return (yield from exchange())
            return (yield from connection.exchange(script.request(command, request_id)))
        except FAILURES as failure:
            error = failure


def backoff() -> Generator[float, None, None]:
    """Yield growing pauses: none, then up to a second, with jitter."""
    yield 0.0
    most = 0.01
    while True:
        yield most * random.uniform(0.5, 1)
        most = min(most * 2, 1.0)
