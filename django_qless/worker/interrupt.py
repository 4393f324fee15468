"""How a running job is interrupted: an exception in its thread, or its coroutine cancelled.

A job runs inside a region, which is known by the token of the job's lock. The soft
timeout of the region, or a call of `interrupt`, raises an exception in it:

    in the main thread          from a signal handler, which also ends system calls
    in any other thread         by PyThreadState_SetAsyncExc, between two bytecodes
    in a coroutine              by cancelling its task; the exception replaces the
                                CancelledError when that leaves the region

Nothing is raised after the region has ended. Code in C goes on undisturbed until it
comes back, and so do system calls outside of the main thread.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from django_qless.exceptions import Interrupted, JobTimeout
from django_qless.worker.deadline import NEVER, Alarm

# How many jobs that have not begun may be told; mostly they have ended.
MOST_PENDING = 1000

P = ParamSpec("P")
T = TypeVar("T")


def interrupt(token: str, exception: Interrupted) -> bool:
    """Raise the exception in the job whose lock has this token.

    May be called in any thread, and in a signal handler. Returns False if no such job
    runs at the moment: it has ended, or if it has not begun, it is interrupted then.
    """
    _pending[token] = exception
    region = _regions.get(token)
    if region is None:
        if len(_pending) > MOST_PENDING:
            _pending.pop(next(iter(_pending)), None)
        return False
    # It may just have begun, and seen that it was to be interrupted.
    return _pending.pop(token, None) is None or region.interrupt(exception)


def reason_of(token: str) -> Interrupted | None:
    """Return why the coroutine of this job has been cancelled, None if it has not been.

    For what stands between the job and its region, and catches its CancelledError.
    """
    region = _regions.get(token)
    return region.reason if isinstance(region, TaskRegion) else None


class ThreadRegion:
    """Calls a function of which this thread may be interrupted."""

    __slots__ = ("_ident", "_is_open", "_lock", "_seconds", "_timer", "_token", "used")

    def __init__(self, token: str, seconds: float | None) -> None:
        """`seconds` are the soft timeout, None for none."""
        self._token = token
        self._seconds = seconds
        self._ident = threading.get_ident()
        self._lock = threading.Lock()
        self._is_open = True
        self._timer: Alarm | Deadline | None = None
        #: Whether anything has been raised, caught or not.
        self.used = False

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the function returns, or raise what is raised in it."""
        # Twice, for an exception may be raised in the first instruction of the first
        # `_close`, before it could stand up to it.
        try:
            try:
                if self._seconds is not None:
                    self._set_timer(self._seconds)
                _regions[self._token] = self
                if _pending and (early := _pending.pop(self._token, None)):
                    self.interrupt(early)
                return function(*args, **kwargs)
            finally:
                self._close()
        finally:
            self._close()

    def interrupt(self, exception: Interrupted) -> bool:
        """Raise this in the function; return False if it has ended."""
        if threading.get_ident() == self._ident:
            # A signal handler, in the midst of the job. The lock may be held below it.
            if not self._is_open:
                return False
            self.used = True
            raise exception
        with self._lock:
            if not self._is_open:
                return False
            self.used = True
            _raise_in(self._ident, _made_without_arguments(exception))
        return True

    def _set_timer(self, seconds: float) -> None:
        def ring() -> None:
            self.interrupt(JobTimeout(seconds))

        if threading.current_thread() is threading.main_thread():
            self._timer = alarm = Alarm(seconds, ring)
            alarm.set()
        else:
            self._timer = _watchman.watch(seconds, ring)

    def has_forked(self) -> None:
        """Go on in a copy of the process, where the lock may be held by nobody."""
        self._lock = threading.Lock()

    def _close(self) -> None:
        """Raise nothing from now on, not even what was to be raised just now."""
        while True:
            try:
                with self._lock:
                    self._is_open = False
                _regions.pop(self._token, None)
                if self.used:
                    _raise_in(self._ident, None)
                if self._timer is not None:
                    self._timer.cancel()
                return
            except Interrupted:
                continue  # too late: what the function returned, or raised, counts


class TaskRegion:
    """Awaits something of which the current task may be interrupted."""

    __slots__ = (
        "_cancels",
        "_is_open",
        "_loop",
        "_reason",
        "_seconds",
        "_task",
        "_token",
    )

    def __init__(self, token: str, seconds: float | None) -> None:
        """`seconds` are the soft timeout, None for none."""
        self._token = token
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        self._is_open = True
        self._cancels = 0
        self._reason: Interrupted | None = None

    @property
    def used(self) -> bool:
        """Whether it has been cancelled, with whatever effect."""
        return self._cancels > 0

    @property
    def reason(self) -> Interrupted | None:
        """Why it has been cancelled, None if it has not been: a new exception."""
        # One exception may interrupt many jobs, but each has its own traceback.
        reason = self._reason
        return None if reason is None else type(reason)(*reason.args)

    async def run(self, awaitable: Awaitable[T]) -> T:
        """Return what is awaited; raise the reason if it ends because of one."""
        timer = None
        if self._seconds is not None:
            timeout = JobTimeout(self._seconds)
            timer = self._loop.call_later(self._seconds, self._cancel, timeout)
        _regions[self._token] = self
        if _pending and (early := _pending.pop(self._token, None)):
            self.interrupt(early)
        try:
            return await awaitable
        except asyncio.CancelledError as error:
            reason = self.reason
            if reason is None:
                raise
            raise reason.with_traceback(error.__traceback__) from None
        finally:
            self._is_open = False
            _regions.pop(self._token, None)
            if timer is not None:
                timer.cancel()
            if self._cancels:
                self._forget_cancels()

    def has_forked(self) -> None:
        """Go on in a copy of the process; its loop is of no use."""

    def interrupt(self, exception: Interrupted) -> bool:
        """Have it cancelled for this reason; return False if it has ended."""
        if not self._is_open:
            return False
        # By the loop, not here: a task that is cancelled while it runs, by a signal
        # handler, would be told only at its next `await`, and that may be another job's.
        try:
            self._loop.call_soon_threadsafe(self._cancel, exception)
        except RuntimeError:
            return False  # the loop has just been closed
        return True

    def _cancel(self, reason: Interrupted) -> None:
        if self._is_open and self._task is not None:
            self._reason = reason
            self._cancels += 1
            self._task.cancel()

    def _forget_cancels(self) -> None:
        # Python 3.11 and newer count them, and asyncio.timeout() asks.
        uncancel = getattr(self._task, "uncancel", None)
        if uncancel is not None:
            for _ in range(self._cancels):
                uncancel()


class Deadline:
    """A moment at which the watchman calls somebody, unless it is cancelled."""

    __slots__ = ("_call", "_watchman", "due")

    def __init__(
        self, watchman: Watchman, due: float, call: Callable[[], None]
    ) -> None:
        self._watchman = watchman
        self._call = call
        #: On the monotonic clock.
        self.due = due

    def ring(self) -> None:
        """Call; whoever is called knows whether it is too late."""
        self._call()

    def cancel(self) -> None:
        """Do not call any more. May be called again."""
        self._watchman.deadlines.pop(self, None)


class Watchman:
    """One thread that looks after the deadlines of all others.

    There are never more deadlines than threads, so the next one is looked for among
    all of them: to set or to cancel one costs almost nothing, and the watchman is woken
    only if a deadline comes before the one that it waits for.
    """

    def __init__(self) -> None:
        #: A dict for its atomic pop; the values mean nothing.
        self.deadlines: dict[Deadline, None] = {}
        self._thread: threading.Thread | None = None
        self.start_over()

    def watch(self, seconds: float, call: Callable[[], None]) -> Deadline:
        """Have `call` called after so many seconds, in the watchman's thread."""
        deadline = Deadline(self, time.monotonic() + seconds, call)
        self.deadlines[deadline] = None
        if deadline.due < self._awaited:
            with self._changed:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._live, name="qless watchman", daemon=True
                    )
                    self._thread.start()
                self._changed.notify()
        return deadline

    @property
    def is_called(self) -> bool:
        """Whether it has been asked to watch anything."""
        return self._thread is not None or bool(self.deadlines)

    @property
    def is_asleep(self) -> bool:
        """Whether it waits for the next deadline."""
        return self._awaited != NEVER

    def _live(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                waiting = list(self.deadlines)
                next_due = min((each.due for each in waiting), default=NEVER)
                if next_due > now:
                    self._awaited = next_due
                    self._changed.wait(min(next_due - now, threading.TIMEOUT_MAX))
                    self._awaited = NEVER
                    continue
            for deadline in waiting:
                if deadline.due <= now:
                    deadline.cancel()
                    deadline.ring()

    def start_over(self) -> None:
        """Begin anew in a process that has just been forked: threads stay behind."""
        self.deadlines.clear()
        self._changed = threading.Condition()
        self._thread = None
        #: When the thread wakes by itself; NEVER also while it is awake, for then it
        #: may have looked already, and must be told of every new deadline.
        self._awaited = NEVER


def _raise_in(ident: int, kind: type[BaseException] | None) -> None:
    """Have this raised in a thread; None: what has not been raised yet never is."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(ident), None if kind is None else ctypes.py_object(kind)
    )


def _made_without_arguments(exception: Interrupted) -> type[Interrupted]:
    """Return a class that makes exceptions equal to this one.

    A thread can be told a class only, and the job is to see the arguments as well.
    """
    kind, args = type(exception), exception.args

    def make(self: Interrupted) -> None:
        kind.__init__(self, *args)

    def reduce(self: Interrupted) -> tuple[type[Interrupted], tuple[Any, ...]]:
        return kind, args

    return type(
        kind.__name__,
        (kind,),
        {
            "__init__": make,
            "__reduce__": reduce,
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__,
        },
    )


_regions: dict[str, ThreadRegion | TaskRegion] = {}

# What is to be raised in jobs as soon as they begin.
_pending: dict[str, Interrupted] = {}
_watchman = Watchman()


def _after_fork() -> None:
    # Mostly there is nothing to do, and what a new process does not write to takes no
    # memory.
    if _regions:
        # The copy of a job that forks is still in its region, but out of reach.
        for region in _regions.values():
            region.has_forked()
        _regions.clear()
    if _pending:
        _pending.clear()
    if _watchman.is_called:
        _watchman.start_over()


os.register_at_fork(after_in_child=_after_fork)
