"""Every command of the Lua core, each written once, by subject."""

from __future__ import annotations

from .enqueueing import Enqueueing
from .holding import Holding
from .jobs import Jobs
from .operations import Operations
from .queues import Queues
from .recurrence import Recurrence
from .shared import J, R


class Commands(Enqueueing, Holding[J], Jobs[J], Queues[J], Recurrence[R], Operations):
    """All commands, for Client and AsyncClient."""


__all__ = ["Commands"]
