"""Every command of the Lua core, each written once, by subject."""

from __future__ import annotations

from ..calls import J, R
from .enqueueing import Enqueueing
from .holding import Holding
from .jobs import Jobs
from .looking import Looking
from .operations import EachOfSeveral, Operations
from .queues import Queues
from .recurrence import Recurrence
from .schedules import Schedules
from .workflows import Workflows


class Commands(
    Enqueueing,
    Holding[J],
    Jobs[J],
    EachOfSeveral,
    Looking[J],
    Queues[J],
    Recurrence[R],
    Schedules,
    Workflows,
    Operations,
):
    """All commands, for Client and AsyncClient."""


__all__ = ["Commands"]
