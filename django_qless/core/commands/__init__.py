"""Every command of the Lua core, each written once, by subject."""

from __future__ import annotations

from ..request import J
from .detached import DetachedCommands
from .entities import EntityCommands
from .jobs import BulkCommands, JobCommands
from .operations import OperationCommands
from .pages import PageCommands
from .put import PutCommands
from .queues import QueueCommands
from .recurring import R, RecurringCommands
from .schedules import ScheduleCommands
from .settle import SettleCommands
from .statistics import StatisticsCommands
from .worker import WorkerCommands
from .workflows import WorkflowCommands


class Commands(
    PutCommands,
    SettleCommands,
    WorkerCommands[J],
    JobCommands[J],
    BulkCommands,
    PageCommands[J],
    QueueCommands[J],
    StatisticsCommands,
    RecurringCommands[R],
    ScheduleCommands,
    WorkflowCommands,
    DetachedCommands,
    EntityCommands,
    OperationCommands,
):
    """All commands, for Client and AsyncClient."""


__all__ = ["Commands"]
