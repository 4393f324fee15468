"""Interrupting a running job: an exception in its thread, or its task cancelled.

A job runs inside a scope, identified by the token of the job's lock. The soft timeout of
the scope, or a call of `interrupt`, raises an exception in it:

    in the main thread          from a signal handler, which also ends system calls
    in any other thread         by PyThreadState_SetAsyncExc, between two bytecodes
    in a coroutine              by cancelling its task; the exception replaces the
                                CancelledError when that leaves the scope

Nothing is raised after the scope has ended. Code in C is not disturbed until it returns,
and neither are system calls outside of the main thread.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from django_qless.exceptions import Interrupted, JobTimeout

# Interruptions that wait for their jobs to begin; most of these jobs have ended.
MAX_PENDING = 1000

P = ParamSpec("P")
T = TypeVar("T")


def interrupt(token: str, exception: Interrupted) -> bool:
    """Raise the exception in the job whose lock has this token.

    May be called in any thread, and in a signal handler. Returns False if no such job
    runs: it has ended, or it has not begun and will be interrupted when it does.
    """
    _pending[token] = exception
    scope = _scopes.get(token)
    if scope is None:
        if len(_pending) > MAX_PENDING:
            _pending.pop(next(iter(_pending)), None)
        return False
    # It may just have begun and taken the pending exception.
    return _pending.pop(token, None) is None or scope.interrupt(exception)


def interrupt_reason(token: str) -> Interrupted | None:
    """Return why the coroutine of this job was cancelled, None if it was not.

    For code between the job and its scope that catches the CancelledError.
    """
    scope = _scopes.get(token)
    return scope.reason if isinstance(scope, TaskScope) else None


class ThreadScope:
    """Calls a function that may be interrupted in this thread."""

    __slots__ = (
        "_early",
        "_has_ended",
        "_ident",
        "_is_open",
        "_lock",
        "_seconds",
        "_timer",
        "_token",
        "is_handed_over",
        "was_interrupted",
    )

    def __init__(self, token: str, seconds: float | None) -> None:
        """`seconds` is the soft timeout, None for none."""
        self._token = token
        self._seconds = seconds
        #: True while a TaskScope of the same job is to be interrupted instead.
        self.is_handed_over = False
        self._ident = threading.get_ident()
        self._lock = threading.Lock()
        self._is_open = self._has_ended = False
        # What is to be raised when the function begins.
        self._early: Interrupted | None = None
        self._timer: Alarm | threading.Timer | None = None
        #: Also if the function has caught the exception.
        self.was_interrupted = False

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function: return its result, or raise its exception."""
        # Twice, because an exception may be raised at the first instruction of the first
        # `_close`, before its own `try`.
        try:
            try:
                if self._seconds is not None:
                    # Its thread could not be started by one that is interrupted.
                    self._start_timer(self._seconds)
                with self._lock:
                    self._is_open = True
                _scopes[self._token] = self
                early = self._early
                if _pending and early is None:
                    early = _pending.pop(self._token, None)
                if early is not None:
                    self.interrupt(early)
                return function(*args, **kwargs)
            finally:
                self._close()
        finally:
            self._close()

    def interrupt(self, exception: Interrupted) -> bool:
        """Raise this in the function; return False if it has ended."""
        if threading.get_ident() == self._ident:
            # In a signal handler on top of the job, which may hold the lock.
            if not self._is_open:
                return self._keep(exception)
            self.was_interrupted = True
            if self.is_handed_over:
                return interrupt(self._token, exception)
            raise exception
        with self._lock:
            if not self._is_open:
                return self._keep(exception)
            self.was_interrupted = True
            if self.is_handed_over:
                return interrupt(self._token, exception)
            _raise_in(self._ident, _class_without_arguments(exception))
        return True

    def _keep(self, exception: Interrupted) -> bool:
        """Raise it when the function begins; return False if it has ended."""
        if self._has_ended:
            return False
        self._early = exception
        return True

    def after_fork(self) -> None:
        """Replace the lock in a forked process: its holder may not exist there."""
        self._lock = threading.Lock()

    def _start_timer(self, seconds: float) -> None:
        def on_timeout() -> None:
            self.interrupt(JobTimeout(seconds))

        if threading.current_thread() is threading.main_thread():
            self._timer = Alarm(seconds, on_timeout)
        else:
            self._timer = threading.Timer(
                min(seconds, threading.TIMEOUT_MAX), on_timeout
            )
            self._timer.daemon = True
        self._timer.start()

    def _close(self) -> None:
        """Raise nothing from now on, not even what has been scheduled already."""
        while True:
            try:
                with self._lock:
                    self._is_open, self._has_ended = False, True
                _scopes.pop(self._token, None)
                if self.was_interrupted:
                    _raise_in(self._ident, None)
                if self._timer is not None:
                    self._timer.cancel()
                return
            except Interrupted:
                continue  # too late: what the function returned, or raised, counts


class TaskScope:
    """Awaits something that may be interrupted in the current task."""

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
        """`seconds` is the soft timeout, None for none."""
        self._token = token
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        self._is_open = True
        self._cancels = 0
        self._reason: Interrupted | None = None

    @property
    def was_interrupted(self) -> bool:
        """True if the task has been cancelled, even if that had no effect."""
        return self._cancels > 0

    @property
    def reason(self) -> Interrupted | None:
        """Why it was cancelled, as a new exception; None if it was not."""
        # One exception may interrupt many jobs, but each has its own traceback.
        reason = self._reason
        return None if reason is None else type(reason)(*reason.args)

    async def run(self, awaitable: Awaitable[T]) -> T:
        """Return the awaited result; raise the reason if that ended it."""
        timer = None
        if self._seconds is not None:
            timeout = JobTimeout(self._seconds)
            timer = self._loop.call_later(self._seconds, self._cancel, timeout)
        _scopes[self._token] = self
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
            _scopes.pop(self._token, None)
            if timer is not None:
                timer.cancel()
            # asyncio.timeout() asks how many cancellations there are.
            if self._task is not None:
                for _ in range(self._cancels):
                    self._task.uncancel()

    def after_fork(self) -> None:
        """Do nothing: the loop is of no use in a forked process."""

    def interrupt(self, exception: Interrupted) -> bool:
        """Cancel it for this reason; return False if it has ended."""
        if not self._is_open:
            return False
        # Through the loop: a task cancelled while it runs, by a signal handler, would
        # notice only at its next `await`, which may belong to another job.
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


class Alarm:
    """Calls a function in the main thread after some seconds, unless it is cancelled.

    What that raises is raised there as soon as Python code runs: code in C is not
    disturbed, but a system call that waits is interrupted. Other users of SIGALRM have
    their handler and their timer again afterwards. Use it in the main thread only.
    """

    __slots__ = ("_before", "_callback", "_rest", "_seconds")

    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self._seconds = seconds
        self._callback = callback
        # Here, as it may ring, or be cancelled, before `start` returns.
        self._before = signal.getsignal(signal.SIGALRM) or signal.SIG_DFL
        self._rest = signal.getitimer(signal.ITIMER_REAL)

    def start(self) -> None:
        """Start the timer."""
        signal.signal(signal.SIGALRM, lambda *_: self._callback())
        # 0 would stop it.
        signal.setitimer(signal.ITIMER_REAL, max(self._seconds, 1e-6))

    def cancel(self) -> None:
        """Stop the timer. May be called again."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        signal.setitimer(signal.ITIMER_REAL, *self._rest)


@contextmanager
def handed_over(token: str) -> Iterator[None]:
    """Let interruptions of this thread's job reach a TaskScope of it in the body.

    The thread waits there for the coroutine that the job's function has returned, and
    an exception in the thread would leave that running.
    """
    scope = _scopes.get(token)
    if not isinstance(scope, ThreadScope):
        yield
        return
    # Never both: it would pass the interruption on to itself, and wait for its lock.
    _scopes.pop(token, None)
    scope.is_handed_over = True
    try:
        yield
    finally:
        scope.is_handed_over = False
        _scopes[token] = scope
        if _pending and (late := _pending.pop(token, None)):
            scope.interrupt(late)


def _raise_in(ident: int, kind: type[BaseException] | None) -> None:
    """Raise this in a thread; with None, withdraw what has not been raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(ident), None if kind is None else ctypes.py_object(kind)
    )


def _class_without_arguments(exception: Interrupted) -> type[Interrupted]:
    """Return a class whose instances equal this exception.

    Only a class can be raised in another thread, and the job is to see the arguments.
    """
    kind, args = type(exception), exception.args

    def make(self: Interrupted) -> None:
        kind.__init__(self, *args)

    def reduce(self: Interrupted) -> tuple[type[Interrupted], tuple[Any, ...]]:
        return kind, args

    copied = {name: getattr(kind, name) for name in _CLASS_ATTRIBUTES}
    return type(
        kind.__name__, (kind,), {"__init__": make, "__reduce__": reduce, **copied}
    )


_CLASS_ATTRIBUTES = ("__module__", "__qualname__", "__doc__")

_scopes: dict[str, ThreadScope | TaskScope] = {}

# Exceptions for jobs that have not begun, by token.
_pending: dict[str, Interrupted] = {}


def _after_fork() -> None:
    # Memory that a forked process does not write to stays shared, so this writes only
    # where there is something to reset.
    if _scopes:
        # The copy of a job that forks is still in its scope, but out of reach.
        for scope in _scopes.values():
            scope.after_fork()
        _scopes.clear()
    if _pending:
        _pending.clear()


os.register_at_fork(after_in_child=_after_fork)
