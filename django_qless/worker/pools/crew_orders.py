"""What a crew is told: orders on its board, and signals that say where to look."""

from __future__ import annotations

import logging
import signal
import time
from typing import TYPE_CHECKING

from django_qless.exceptions import Interrupted, JobLost, ShuttingDown
from django_qless.worker.interrupt import interrupt
from django_qless.worker.log import event
from django_qless.worker.pools import board as boards

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_qless.core import Reserved
    from django_qless.worker.pools.crew import Crew


class Orders:
    """Hears of orders in the crew's event loop, and follows them."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.board = crew.board
        #: What running jobs have been told, by the tokens of their locks.
        self._told: dict[str, type[Interrupted]] = {}

    def listen(self) -> None:
        """Follow the orders that are there, and from now on those that come."""
        self.crew.loop.add_signal_handler(signal.SIGTERM, self.on_term)
        self.crew.loop.add_signal_handler(signal.SIGUSR2, self.on_interrupt)
        # Signals reach the main thread whatever jobs do.
        self.board.words[boards.IDLE] = 1
        self.obey()

    def stop_listening(self) -> None:
        """Be woken no more, nor ended by a signal, in the last moment."""
        self.board.words[boards.IDLE] = 0
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR2))

    def on_term(self) -> None:
        """Look at the board; leave if it was not the parent who asked for that."""
        if self.board.has_orders:
            self.obey()
        elif not self.board.was_nudged(time.monotonic()) and not self.crew.is_ending:
            self.crew.depart("it was told so by a signal")

    def on_interrupt(self) -> None:
        """Look at the board, also for the order to interrupt what runs."""
        self.obey()

    def obey(self) -> None:
        """Follow the orders on the board."""
        crew, board = self.crew, self.board
        board.heed()
        lost = board.lost_tokens()
        if lost and (running := crew.stock.drop(lost)):
            self.interrupt(running, JobLost())
        if board.words[boards.INTERRUPT]:
            self.interrupt(crew.stock.running_jobs(), ShuttingDown())
        if not crew.is_closed:
            crew.hands.attend()
        # It may be that only: the parent looks for jobs that nobody knows of.
        crew.stop_waiting()
        crew.bell.set()

    def interrupt(self, jobs: Iterable[Reserved], reason: Interrupted) -> None:
        """Raise this in those jobs, once in each: now, or as soon as they begin."""
        held, told = self.crew.stock.held, self._told
        for token in [token for token in told if token not in held]:
            del told[token]
        for job in jobs:
            if told.get(job.token) is type(reason):
                continue
            told[job.token] = type(reason)
            interrupt(job.token, reason)
            about = {"queue": job.queue, "jid": job.jid, "klass": job.klass}
            event(logging.INFO, "interrupted", why=reason, **about)
