"""Exceptions: one class for each failure that a caller may want to handle.

    QlessError
    ├── BadArgument                 a value that no call may have
    │   └── TooBig                  a value or a batch above a limit
    ├── JobNotFound                 no job has this id
    ├── ScheduleNotFound            no schedule has this id
    ├── WorkerNotFound              no worker of this name has been seen lately
    ├── LockLost                    another worker may hold the job by now
    ├── WrongState                  the state of the job, or of the queue, forbids it
    ├── HasDependents               other jobs wait for this one
    ├── DependencyCycle             the job would wait for itself
    ├── StaleRequest                a repeat arrived after a newer request
    ├── UnknownCommand              the Lua core on the server is another version
    ├── CoreFailed                  the Lua core failed with an internal error: a defect
    └── ServerError                 nothing is wrong with the call itself
        ├── ConnectionLost          no answer within the client's patience
        │   ├── NotReached          no connection, so nothing was sent
        │   └── ReadLost            the call only reads
        ├── ServerBusy              the server is loading, failing over or running a script
        │   └── TooFewReplicas      fewer replicas follow it than it needs for a write
        ├── ReadOnlyServer          the server is a replica
        ├── NotReplicated           the job is there, and not on enough replicas yet
        ├── ServerFull              the server is out of memory
        ├── CannotPersist           the server cannot write to its disk
        ├── NotAuthenticated        the user or the password is wrong
        ├── NotPermitted            the user may not do this
        ├── ServerTooOld            the server lacks what is needed
        ├── UnsupportedFormat       another version of django_qless keeps these jobs
        ├── ClusterRefused          the server is one node of a cluster
        └── PoolExhausted           all connections are in use

The docstring of a class is the end of its message: what the error means, and the remedy.
"""

from __future__ import annotations

import inspect
from typing import Any

from .permissions import USER, rules_for


class QlessError(Exception):
    """The call failed."""

    def __init__(self, detail: str = "", *, done: int = 0) -> None:
        super().__init__(detail)
        #: What happened, in the words of the server or of the check that failed.
        self.detail = detail
        #: Of a call that was split into several: how many items were processed before.
        self.done = done

    def __str__(self) -> str:
        sentences = [self.detail, self.explanation()]
        if self.done:
            sentences.append(f"The {self.done} items before it were processed.")
        return " ".join(_closed(text) for text in sentences if text)

    @classmethod
    def explanation(cls) -> str:
        """Return what this class of error means, and the remedy."""
        return " ".join(inspect.cleandoc(cls.__doc__ or "").split())


def _closed(text: str) -> str:
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


class BadArgument(QlessError, ValueError):
    """Nothing was changed."""


class TooBig(BadArgument):
    """Nothing was written. Split the call, or keep the value elsewhere and pass a
    reference to it."""


class JobNotFound(QlessError, LookupError):
    """The job was cancelled, has expired after its completion, or was never put."""


class ScheduleNotFound(QlessError, LookupError):
    """The schedule was removed, or was never made: nothing was changed. Check the id
    against the list of schedules."""


class WorkerNotFound(QlessError, LookupError):
    """No worker of this name has been seen lately: nothing was changed. Check the name
    against the list of workers."""


class LockLost(QlessError):
    """The lock on the job has expired or was taken away, and another worker may hold it
    by now: nothing was changed. Stop working on it; heartbeats keep a lock."""


class WrongState(QlessError):
    """Its present state does not allow this: nothing was changed. Look at it again before
    you decide what to do."""


class HasDependents(QlessError):
    """Other jobs wait for this one and would wait for ever: nothing was changed. Name
    them in the same call, or free them with depends_off first."""


class DependencyCycle(QlessError):
    """The job would wait for itself, directly or through others: nothing was changed."""


class StaleRequest(QlessError):
    """A newer request with the same client id has been answered already. One client id
    must have only one request under way."""


class UnknownCommand(QlessError):
    """The Lua core on the server does not know this command. It is probably
    another version."""


class CoreFailed(QlessError):
    """The Lua core failed with an internal error. This is a defect of django_qless: please
    report it with this text."""


class ServerError(QlessError):
    """The server refused the call."""


class ConnectionLost(ServerError):
    """The server did not answer. A change was made once, or not at all: it is not
    known which. Check that the server is running and that its address is right."""


class NotReached(ConnectionLost):
    """No connection to the server could be opened: nothing was sent, and nothing was
    changed. Check that the server is running and that its address is right."""


class ReadLost(ConnectionLost):
    """The server did not answer a call that only reads: nothing was changed. Check
    that the server is running and that its address is right."""


class ServerBusy(ServerError):
    """The server was loading, failing over or running a script for too long. Nothing was
    written; try again later."""


class TooFewReplicas(ServerBusy):
    """Fewer replicas follow the server than its min-replicas-to-write asks for: nothing
    was written. Bring the replicas back, or lower that number."""


class ReadOnlyServer(ServerError):
    """The server is a read-only replica: nothing was written. Connect to the primary."""


class NotReplicated(ServerError):
    """The job is there, and workers run it; but if the primary fails now, it may be lost.
    Check that the replicas are connected. Putting it again with the same jid waits for
    them again; nothing is enqueued twice."""

    def __init__(
        self,
        detail: str = "",
        *,
        done: int = 0,
        replicas: int = 0,
        result: Any = None,
    ) -> None:
        super().__init__(detail, done=done)
        #: How many replicas have confirmed it.
        self.replicas = replicas
        #: What the call would have returned.
        self.result = result
        #: The handles of the jobs, of a call that returns handles.
        self.handles: tuple[Any, ...] = ()

    @property
    def handle(self) -> Any:
        """The handle of the job (of several, the first), or None."""
        return self.handles[0] if self.handles else None


class ServerFull(ServerError):
    """The server is out of memory: nothing was written. Raise its maxmemory, or let
    workers finish jobs, which is possible on a full server."""


class CannotPersist(ServerError):
    """The server cannot save its data and refuses writes: nothing was written. Look at
    its disk and its log."""


class NotAuthenticated(ServerError):
    """The server does not accept the user name or the password of the connection. Correct
    them in the server's address or in its options."""


class NotPermitted(ServerError):
    """The server's ACL does not permit this: docs/permissions.md has all that its user
    needs."""

    def __init__(self, detail: str = "", *, done: int = 0) -> None:
        super().__init__(detail, done=done)
        #: The rules for ACL SETUSER that permit it, such as "+hset"; empty if unknown.
        self.rules: tuple[str, ...] = tuple(rules_for(detail))

    def __str__(self) -> str:
        if not self.rules:
            return super().__str__()
        found = USER.search(self.detail)
        user = found[1] if found else "<user>"
        return f"{super().__str__()} ACL SETUSER {user} {' '.join(self.rules)} adds it."


class ServerTooOld(ServerError):
    """Redis 7.0, Valkey 8 or newer is needed: the Lua core is a library of functions."""


class UnsupportedFormat(ServerError):
    """What the namespace stores has a format that this version of django_qless cannot
    read: nothing was written. Upgrade what still runs an older version, or, where the
    format is too old, drain the namespace with the version that has written it."""


class ClusterRefused(ServerError):
    """The server belongs to a cluster and another node holds these keys: name its nodes in
    CLUSTER. Or CLUSTER names a server that is not in cluster mode: use LOCATION."""


class PoolExhausted(ServerError):
    """All connections are in use and none became free. Raise max_connections, or make
    fewer calls at the same time."""


#: Refusals of a call for what it asks: it would be refused again.
REFUSALS = (JobNotFound, WrongState, DependencyCycle, BadArgument)
