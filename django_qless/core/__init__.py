"""The queue without a framework: a typed client of the Lua core in Redis or Valkey."""

from __future__ import annotations

from .client import AsyncClient, Client
from .commands.operations import ORDERS, Order
from .commands.queues import QueueSurvey
from .config import AsyncConfig, Config
from .events import AsyncSubscriber, Event, Subscriber
from .exceptions import (
    BadArgument,
    CannotPersist,
    ClusterRefused,
    ConnectionLost,
    CoreFailed,
    DependencyCycle,
    HasDependents,
    JobNotFound,
    LockLost,
    NotAuthenticated,
    NotPermitted,
    PoolExhausted,
    QlessError,
    ReadOnlyServer,
    ServerBusy,
    ServerError,
    ServerFull,
    ServerTooOld,
    StaleRequest,
    TooBig,
    UnknownCommand,
    WorkerNotFound,
    WrongState,
)
from .failures import AsyncFailures, Failures
from .jid import new_jid
from .job import AsyncJob, Failure, Job
from .prepared import PreparedPut
from .put import Put
from .queue import AsyncQueue, Queue
from .recurring import AsyncRecurringJob, RecurringJob
from .reserved import Beat, Refused, Reserved, Settled, Settlement
from .tags import AsyncTags, Tags
from .tracked import AsyncTracked, Tracked
from .waiting import After, AsyncAfter
from .workers import AsyncWorkers, Workers

__all__ = [
    "ORDERS",
    "After",
    "AsyncAfter",
    "AsyncClient",
    "AsyncConfig",
    "AsyncFailures",
    "AsyncJob",
    "AsyncQueue",
    "AsyncRecurringJob",
    "AsyncSubscriber",
    "AsyncTags",
    "AsyncTracked",
    "AsyncWorkers",
    "BadArgument",
    "Beat",
    "CannotPersist",
    "Client",
    "ClusterRefused",
    "Config",
    "ConnectionLost",
    "CoreFailed",
    "DependencyCycle",
    "Event",
    "Failure",
    "Failures",
    "HasDependents",
    "Job",
    "JobNotFound",
    "LockLost",
    "NotAuthenticated",
    "NotPermitted",
    "Order",
    "PoolExhausted",
    "PreparedPut",
    "Put",
    "QlessError",
    "Queue",
    "QueueSurvey",
    "ReadOnlyServer",
    "RecurringJob",
    "Refused",
    "Reserved",
    "ServerBusy",
    "ServerError",
    "ServerFull",
    "ServerTooOld",
    "Settled",
    "Settlement",
    "StaleRequest",
    "Subscriber",
    "Tags",
    "TooBig",
    "Tracked",
    "UnknownCommand",
    "WorkerNotFound",
    "Workers",
    "WrongState",
    "new_jid",
]
