"""Jobs are interrupted while they run, and never after: in threads, in coroutines."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import sys
import threading
import time
from contextlib import contextmanager
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.exceptions import Interrupted, JobLost, JobTimeout, ShuttingDown
from django_qless.worker.interrupt import (
    MAX_PENDING,
    TaskScope,
    ThreadScope,
    interrupt,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def spin() -> None:
    """Run until interrupted."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        pass
    raise AssertionError("nothing has interrupted it")


def in_main(work: Callable[[], Any]) -> Any:
    return work()


def in_thread(work: Callable[[], Any]) -> Any:
    """Return what `work` returns in a new thread, or raise what it raises."""
    ended: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            ended.append((work(), None))
        except BaseException as error:  # noqa: BLE001
            ended.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    [(result, error)] = ended
    if error:
        raise error
    return result


@pytest.fixture
def token(request: pytest.FixtureRequest) -> str:
    """The token of a lock that no other job has."""
    name: str = request.node.name
    return name


@pytest.fixture(params=[in_main, in_thread], ids=["main", "thread"])
def each_thread(request: pytest.FixtureRequest) -> Callable[[Callable[[], Any]], Any]:
    """Runs something in the main thread, or in another one."""
    found: Callable[[Callable[[], Any]], Any] = request.param
    return found


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Collects the garbage of earlier tests now, and none during the test.

    What is raised in a finalizer, Python prints and drops: an interrupt, too.
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@contextmanager
def another_thread_does(work: Callable[[], Any]) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


class TestThreads:
    def test_what_is_returned_or_raised_comes_back(
        self, token: str, each_thread: Any
    ) -> None:
        assert each_thread(lambda: ThreadScope(token, None).run(divmod, 7, 2)) == (
            3,
            1,
        )
        with pytest.raises(ZeroDivisionError):
            each_thread(lambda: ThreadScope(token, 30).run(divmod, 7, 0))

    def test_a_soft_timeout(self, token: str, each_thread: Any) -> None:
        with pytest.raises(JobTimeout, match=r"its timeout of 0\.01 s") as caught:
            each_thread(lambda: ThreadScope(token, 0.01).run(spin))
        assert caught.value.seconds == 0.01
        assert caught.value.group == "timeout"
        assert type(caught.value).__qualname__ == "JobTimeout"
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is JobTimeout
        assert again.args == (0.01,)

    def test_in_the_main_thread_it_ends_system_calls(self, token: str) -> None:
        with pytest.raises(JobTimeout):
            ThreadScope(token, 0.01).run(time.sleep, 30)

    def test_the_job_may_catch_it(self, token: str, each_thread: Any) -> None:
        def job() -> str:
            try:
                spin()
            except JobTimeout:
                return "tidied up"
            return "never"

        scope: list[ThreadScope] = []

        def work() -> str:
            scope.append(ThreadScope(token, 0.01))
            return scope[0].run(job)

        assert each_thread(work) == "tidied up"
        assert scope[0].was_interrupted

    @pytest.mark.parametrize("error", [ShuttingDown(), JobLost()])
    def test_another_thread_interrupts(
        self, token: str, error: Interrupted, each_thread: Any
    ) -> None:
        begun = threading.Event()

        def job() -> None:
            begun.set()
            spin()

        def stop() -> None:
            begun.wait()
            assert interrupt(token, error)

        with another_thread_does(stop), pytest.raises(type(error), match=str(error)):
            each_thread(lambda: ThreadScope(token, None).run(job))

    def test_a_signal_handler_interrupts_the_main_thread(self, token: str) -> None:
        def on_signal(number: int, frame: object) -> None:
            interrupt(token, ShuttingDown())

        def job() -> None:
            os.kill(os.getpid(), signal.SIGUSR2)
            time.sleep(30)

        before = signal.signal(signal.SIGUSR2, on_signal)
        try:
            with pytest.raises(ShuttingDown):
                ThreadScope(token, None).run(job)
            # No job runs: the handler finds no job, and the exception hits none.
            os.kill(os.getpid(), signal.SIGUSR2)
        finally:
            signal.signal(signal.SIGUSR2, before)

    def test_code_in_c_is_interrupted_when_it_comes_back(self, token: str) -> None:
        begun, came_back = threading.Event(), threading.Event()

        def job() -> None:
            begun.set()
            came_back.wait(30)
            time.sleep(0)

        def stop() -> None:
            begun.wait()
            interrupt(token, JobLost())
            came_back.set()

        with another_thread_does(stop), pytest.raises(JobLost):
            in_thread(lambda: ThreadScope(token, None).run(job))

    def test_one_that_has_not_begun_is_interrupted_when_it_does(
        self, token: str, each_thread: Any
    ) -> None:
        assert not interrupt(token, JobLost())
        with pytest.raises(JobLost):
            each_thread(lambda: ThreadScope(token, None).run(spin))
        assert each_thread(lambda: ThreadScope(token, None).run(int, "3")) == 3

    def test_one_that_has_ended_is_not(self, token: str, each_thread: Any) -> None:
        def work() -> int:
            scope = ThreadScope(token, None)
            scope.run(int)
            assert not interrupt(token, JobLost())
            assert not scope.interrupt(JobLost())
            with another_thread_does(lambda: scope.interrupt(JobLost())):
                pass
            return sum(range(1000))

        assert each_thread(work) == 499500

    def test_only_the_job_that_is_meant(self) -> None:
        """Of two that run in threads."""
        begun, over = threading.Barrier(3), threading.Event()

        def job() -> str:
            begun.wait()
            while not over.is_set():
                pass
            return "over"

        ended: dict[str, object] = {}

        def work(token: str) -> None:
            try:
                ended[token] = ThreadScope(token, None).run(job)
            except JobLost as error:
                ended[token] = error

        threads = [threading.Thread(target=work, args=(each,)) for each in "ab"]
        for thread in threads:
            thread.start()
        begun.wait()
        interrupt("a", JobLost())
        threads[0].join()
        over.set()
        threads[1].join()
        assert isinstance(ended["a"], JobLost)
        assert ended["b"] == "over"

    @pytest.mark.usefixtures("no_collector")
    def test_nothing_is_raised_after_the_end(
        self, token: str, each_thread: Any
    ) -> None:
        """Whenever the timeout comes: before the end, after it, in the midst of it."""

        def work() -> tuple[int, int]:
            interrupted, returned = 0, 0
            for n in tries():
                if min(interrupted, returned) >= 500:
                    break
                length = n % 60 * 5e-6
                try:
                    ThreadScope(token, 1e-4).run(_busy, length)
                    returned += 1
                except JobTimeout:
                    interrupted += 1
                # Where a late exception would come up: outside of the `try`.
                _busy(1e-5)
            return interrupted, returned

        switch = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            interrupted, returned = each_thread(work)
        finally:
            sys.setswitchinterval(switch)
        assert min(interrupted, returned) > 0

    @pytest.mark.usefixtures("no_collector")
    def test_nothing_is_raised_after_the_end_by_others(self, each_thread: Any) -> None:
        over = threading.Event()
        tokens = count()
        running = [""]

        def work() -> tuple[int, int]:
            interrupted, returned = 0, 0
            for _ in tries():
                if min(interrupted, returned) >= 200:
                    break
                running[0] = token = f"t{next(tokens)}"
                try:
                    ThreadScope(token, None).run(_busy, 5e-5)
                    returned += 1
                except ShuttingDown:
                    interrupted += 1
                _busy(1e-5)
            return interrupted, returned

        def disturb() -> None:
            while not over.is_set():
                interrupt(running[0], ShuttingDown())
                time.sleep(1e-4)

        with another_thread_does(disturb):
            try:
                interrupted, returned = each_thread(work)
            finally:
                over.set()
        assert min(interrupted, returned) > 0

    @pytest.mark.usefixtures("no_collector")
    def test_a_copy_of_the_process_goes_on(self, token: str, each_thread: Any) -> None:
        def job() -> int:
            copy = os.fork()
            if copy == 0:
                return 0
            return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])

        def work() -> int:
            status = ThreadScope(token, 30).run(job)
            if status == 0:
                os._exit(7)
            return status

        assert each_thread(work) == 7


def tries() -> Iterator[int]:
    """Count as long as a test of a race may take: a busy machine gives less of them."""
    until = time.monotonic() + 5
    return takewhile(lambda n: time.monotonic() < until, count())


def _busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class TestAlarm:
    @pytest.fixture
    def rings(self) -> Iterator[list[str]]:
        """The project's own use of the signal."""
        rings: list[str] = []
        before = signal.signal(signal.SIGALRM, lambda *args: rings.append("theirs"))
        yield rings
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    def test_what_was_there_before_is_back(self, token: str, rings: list[str]) -> None:
        handler = signal.getsignal(signal.SIGALRM)
        signal.setitimer(signal.ITIMER_REAL, 100, 7)
        with pytest.raises(JobTimeout):
            ThreadScope(token, 0.01).run(spin)
        assert signal.getsignal(signal.SIGALRM) is handler
        remaining, interval = signal.getitimer(signal.ITIMER_REAL)
        assert 90 < remaining < 100
        assert interval == 7
        assert not rings


class TestTasks:
    def test_what_is_returned_or_raised_comes_back(self, token: str) -> None:
        async def job(value: str) -> int:
            await asyncio.sleep(0)
            return int(value)

        async def main() -> None:
            assert await TaskScope(token, None).run(job("3")) == 3
            with pytest.raises(ValueError, match="invalid literal"):
                await TaskScope(token, 30).run(job("three"))

        asyncio.run(main())

    def test_a_soft_timeout(self, token: str) -> None:
        async def main() -> None:
            with pytest.raises(JobTimeout) as caught:
                await TaskScope(token, 0.01).run(asyncio.sleep(30))
            assert caught.value.seconds == 0.01
            assert _cancelling() == 0

        asyncio.run(main())

    def test_the_traceback_shows_where_the_job_was(self, token: str) -> None:
        async def waits_here() -> None:
            await asyncio.sleep(30)

        async def main() -> None:
            with pytest.raises(JobTimeout) as caught:
                await TaskScope(token, 0.01).run(waits_here())
            assert "waits_here" in [each.name for each in caught.traceback]

        asyncio.run(main())

    def test_the_job_may_catch_it(self, token: str) -> None:
        async def job() -> str:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                return "tidied up"
            return "never"

        async def main() -> None:
            scope = TaskScope(token, 0.01)
            assert await scope.run(job()) == "tidied up"
            assert scope.was_interrupted
            # Nothing of it is left for what the task does next.
            assert _cancelling() == 0
            await asyncio.sleep(0)

        asyncio.run(main())

    @pytest.mark.parametrize("error", [ShuttingDown(), JobLost()])
    def test_another_thread_interrupts(self, token: str, error: Interrupted) -> None:
        begun = threading.Event()

        async def job() -> None:
            begun.set()
            await asyncio.sleep(30)

        async def main() -> None:
            with pytest.raises(type(error)) as caught:
                await TaskScope(token, None).run(job())
            assert caught.value is not error

        def stop() -> None:
            begun.wait()
            assert interrupt(token, error)

        with another_thread_does(stop):
            asyncio.run(main())

    def test_one_that_interrupts_itself_does_not_hit_what_follows(
        self, token: str
    ) -> None:
        async def job() -> str:
            assert interrupt(token, JobLost())
            return "returned"

        async def main() -> None:
            assert await TaskScope(token, None).run(job()) == "returned"
            for _ in range(3):
                await asyncio.sleep(0)

        asyncio.run(main())

    def test_one_that_has_not_begun_is_interrupted_when_it_does(
        self, token: str
    ) -> None:
        async def main() -> None:
            assert not interrupt(token, JobLost())
            with pytest.raises(JobLost):
                await TaskScope(token, None).run(asyncio.sleep(30))

        asyncio.run(main())

    def test_one_that_has_ended_is_not(self, token: str) -> None:
        async def main() -> None:
            scope = TaskScope(token, None)
            await scope.run(asyncio.sleep(0))
            assert not interrupt(token, JobLost())
            assert not scope.interrupt(JobLost())
            await asyncio.sleep(0)

        asyncio.run(main())

    def test_a_cancellation_without_a_reason_stays_one(self, token: str) -> None:
        async def job() -> None:
            raise asyncio.CancelledError("of its own")

        async def main() -> None:
            with pytest.raises(asyncio.CancelledError, match="of its own"):
                await TaskScope(token, None).run(job())

        asyncio.run(main())

    def test_only_the_job_that_is_meant(self) -> None:
        async def main() -> None:
            async def run(token: str) -> str:
                scope = TaskScope(token, None)
                return await scope.run(asyncio.sleep(0.05, result=token))

            tasks = [asyncio.create_task(run(each)) for each in "abc"]
            await asyncio.sleep(0)
            interrupt("b", ShuttingDown())
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(ended[1], ShuttingDown)
            assert (ended[0], ended[2]) == ("a", "c")

        asyncio.run(main())

    def test_one_whose_loop_is_closed_has_ended(self, token: str) -> None:
        """The process ends while the parent asks it to hurry."""

        async def main() -> TaskScope:
            return TaskScope(token, None)

        assert not asyncio.run(main()).interrupt(ShuttingDown())


def test_interruptions_of_jobs_that_never_begin_are_forgotten_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pending: dict[str, Interrupted] = {}
    monkeypatch.setattr("django_qless.worker.interrupt._pending", pending)
    for n in range(MAX_PENDING + 3):
        assert not interrupt(f"token-{n}", JobLost())
    assert len(pending) == MAX_PENDING
    assert next(iter(pending)) == "token-3"


def _cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()
