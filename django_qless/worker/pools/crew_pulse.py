"""Does the event loop turn? If not, which job blocks it?

The loop writes on the board when it turned last; the parent ends a process whose loop
has stood still for too long. A thread beside the loop finds out who is to blame, as far as
it gets a turn.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django_qless.worker.log import event
from django_qless.worker.pools import board as boards

if TYPE_CHECKING:
    from django_qless.worker.pools.board import Board
    from django_qless.worker.pools.crew_stock import Item

# The loop turns, and the thread looks, at least as often, in seconds; and so many times
# before the limit.
LONGEST, LOOKS = 0.25, 10


class Pulse:
    """Keeps the board's word TURNED, and CULPRIT while it stands still."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        board: Board,
        tasks: Mapping[asyncio.Task[Any], Item],
        limit: float,
    ) -> None:
        """`tasks` are those of jobs; `limit` is in seconds."""
        self._loop = loop
        self._board = board
        self._tasks = tasks
        self._limit = limit
        self._pause = min(LONGEST, limit / LOOKS)
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def begin(self) -> None:
        """Begin, in the loop's thread."""
        self._thread = threading.get_ident()
        self._turn()
        threading.Thread(target=self._watch, name="loop watch", daemon=True).start()

    def end(self) -> None:
        """End."""
        self._is_over = True
        if self._timer:
            self._timer.cancel()

    def _turn(self) -> None:
        self._board.seconds[boards.TURNED] = time.monotonic()
        if self._board.words[boards.CULPRIT]:
            self._board.words[boards.CULPRIT] = 0
        self._timer = self._loop.call_later(self._pause, self._turn)

    def _watch(self) -> None:
        told = 0.0
        while not self._is_over:
            time.sleep(self._pause)
            turned = self._board.seconds[boards.TURNED]
            stood = time.monotonic() - turned
            if stood < self._limit / 2:
                continue
            # In time for the parent, who acts at the limit.
            task = asyncio.current_task(self._loop)
            item = self._tasks.get(task) if task else None
            self._board.words[boards.CULPRIT] = item.slot + 1 if item else 0
            if turned != told and stood >= self._limit - self._pause:
                told = turned
                self._tell(stood, item)

    def _tell(self, stood: float, item: Item | None) -> None:
        frame = sys._current_frames().get(self._thread)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        event(
            logging.ERROR,
            "the event loop is blocked",
            seconds=stood,
            jid=item.job.jid if item else "",
            stack=stack,
        )
