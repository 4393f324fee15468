"""The queue without a framework: a typed client of the Lua core in Redis or Valkey."""

from __future__ import annotations

from .brief import Brief, ListKind, Part
from .client import AsyncClient, Client
from .commands.each import Each
from .commands.operations import ORDERS, Order
from .commands.queues import Pause, QueueSurvey
from .commands.workflows import WorkflowRecord
from .config import AsyncConfig, Config
from .events import AsyncSubscriber, Event, Subscriber
from .exceptions import (
    BadArgument,
    CannotPersist,
    ClusterRefused,
    ConnectionLost,
    CoreFailed,
    DependencyCycle,
    DuplicateJob,
    HasDependents,
    JobNotFound,
    LockLost,
    NotAuthenticated,
    NotPermitted,
    NotReached,
    PoolExhausted,
    QlessError,
    ReadLost,
    ReadOnlyServer,
    ScheduleNotFound,
    ServerBusy,
    ServerError,
    ServerFull,
    ServerTooOld,
    StaleRequest,
    TooBig,
    UnknownCommand,
    UnsupportedFormat,
    WorkerNotFound,
    WrongState,
)
from .failures import AsyncFailures, Failures
from .jid import new_jid
from .job import AsyncJob, Canceled, Failure, Job
from .prepared import PreparedPut
from .put import Put, PutMany
from .queue import AsyncQueue, Queue
from .recurring import AsyncRecurringJob, RecurringJob
from .reserved import Beat, Refused, Reserved, Settled, Settlement
from .schedule import (
    Declared,
    DueSchedule,
    DueSchedules,
    Schedule,
    ScheduleListing,
    Tick,
)
from .tags import AsyncTags, Tags
from .tracked import AsyncTracked, Tracked
from .views import (
    FailureGroup,
    FailureGroups,
    JobView,
    TagCount,
    TagCounts,
    Throughput,
    WorkerView,
    WorkerViews,
)
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
    "Brief",
    "Canceled",
    "CannotPersist",
    "Client",
    "ClusterRefused",
    "Config",
    "ConnectionLost",
    "CoreFailed",
    "Declared",
    "DependencyCycle",
    "DueSchedule",
    "DueSchedules",
    "DuplicateJob",
    "Each",
    "Event",
    "Failure",
    "FailureGroup",
    "FailureGroups",
    "Failures",
    "HasDependents",
    "Job",
    "JobNotFound",
    "JobView",
    "ListKind",
    "LockLost",
    "NotAuthenticated",
    "NotPermitted",
    "NotReached",
    "Order",
    "Part",
    "Pause",
    "PoolExhausted",
    "PreparedPut",
    "Put",
    "PutMany",
    "QlessError",
    "Queue",
    "QueueSurvey",
    "ReadLost",
    "ReadOnlyServer",
    "RecurringJob",
    "Refused",
    "Reserved",
    "Schedule",
    "ScheduleListing",
    "ScheduleNotFound",
    "ServerBusy",
    "ServerError",
    "ServerFull",
    "ServerTooOld",
    "Settled",
    "Settlement",
    "StaleRequest",
    "Subscriber",
    "TagCount",
    "TagCounts",
    "Tags",
    "Throughput",
    "Tick",
    "TooBig",
    "Tracked",
    "UnknownCommand",
    "UnsupportedFormat",
    "WorkerNotFound",
    "WorkerView",
    "WorkerViews",
    "Workers",
    "WorkflowRecord",
    "WrongState",
    "new_jid",
]
