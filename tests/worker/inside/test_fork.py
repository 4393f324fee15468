"""The fork pool: a process for each job, and children that never run one."""

from __future__ import annotations

import errno
import marshal
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import ConnectionLost, Reserved, Settlement
from django_qless.core.commands.entities import Payload
from django_qless.worker import stacks
from django_qless.worker.crash_reports import CrashReport
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.buffer import Item
from django_qless.worker.pools.fork import ForkChild, unpacked, unpacked_list
from django_qless.worker.pools.locks import LockTerm
from django_qless.worker.pools.shared_state import SharedState
from django_qless.worker.process_info import boottime
from django_qless.worker.worker import Worker
from tests.real_servers import poll
from tests.worker.conftest import is_alive
from tests.worker.declare import job
from tests.worker.inside.plain import PlainEnvironment
from tests.worker.processes import descendants
from tests.worker.test_crashes import children_of, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.real_servers import Server
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


@pytest.fixture
def start(start_worker: StartWorker) -> StartWorker:
    """Starts workers with this pool, which know the jobs about processes."""

    def start(**options: Any) -> WorkerProcess:
        return start_worker(pool="fork", **options)

    return start


def test_a_job_that_dies_does_not_take_the_child_along(
    start: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    worker = start(queues=["q"])
    first = put("give", 1)
    job_when(first, "complete")
    (child,) = children_of(worker.pid)
    jid = put("stay", ledger.path, gate.path, "victim", retries=0)
    for times in range(1, 5):
        os.kill(running(ledger, "victim", times), signal.SIGKILL)
    job = job_when(jid, "failed")
    assert job.failure is not None
    assert job.failure.group == "worker-crash"
    assert "SIGKILL" in job.failure.message
    assert job.remaining == 0
    assert children_of(worker.pid) == [child]
    job_when(put("give", 1), "complete")


def child_of(worker: int, job: int) -> int:
    """Return the child of a worker below which a job runs. It may have others by now."""
    (child,) = (one for one in children_of(worker) if job in descendants(one))
    return child


def test_a_child_whose_fork_server_is_gone_is_replaced(
    start: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    jid = put("stay", ledger.path, gate.path, "job")
    worker = start(queues=["q"])
    job = running(ledger, "job")
    child = child_of(worker.pid, job)
    (fork_server,) = children_of(child)
    os.kill(fork_server, signal.SIGKILL)
    poll(lambda: not is_alive(job), what="the job's process is gone")
    running(ledger, "job", times=2)
    assert not is_alive(child)
    gate.open()
    assert job_when(jid, "complete").crashes == 1


def test_a_copy_of_a_job_says_nothing(
    start: StartWorker, put: Put, ledger: Ledger, job_when: JobWhen
) -> None:
    jid = put("fork_and_return", ledger.path)
    start(queues=["q"], burst=True).wait()
    assert job_when(jid, "complete")
    assert ledger.all() == ["returned 0"]


@job(entity=True)
def greet_together(batch: dict[str, list[int]]) -> None:
    pass


@pytest.fixture
def child(server: Server, ledger: Ledger) -> ForkChild:
    """A child in this process, which has not been prepared: it has no fork server."""
    environment: Any = PlainEnvironment(server.url, announcements=ledger.path)
    worker = Worker(environment, WorkerOptions(queues=("q",), pool="fork"))
    return ForkChild(worker, SharedState(), os.pipe()[1])


@pytest.fixture
def no_fork(child: ForkChild, monkeypatch: pytest.MonkeyPatch) -> OSError:
    """The error that each fork meets."""
    error = OSError(errno.EAGAIN, "no process for a job")

    def fail(order: bytes) -> None:
        raise error

    monkeypatch.setattr(child, "fork_and_wait", fail)
    return error


class TestWithoutProcesses:
    def test_jobs_are_returned_at_once_for_other_workers(
        self, child: ForkChild, no_fork: OSError, put: Put, client: Client
    ) -> None:
        jids = [put("give", n, retries=0) for n in range(3)]
        child.prefetch.count = 3
        with pytest.raises(OSError, match="no process for a job") as caught:
            child.round()
        assert caught.value is no_fork
        assert {job.state for job in client.multiget(jids)} == {"waiting"}
        assert {job.remaining for job in client.multiget(jids)} == {0}
        assert not child.buffer.held

    def test_entities_are_returned_at_once(
        self, child: ForkChild, no_fork: OSError, client: Client
    ) -> None:
        pushed = [Payload(f"e{n}", f'{{"v":1,"entity":"e{n}"}}', "1") for n in range(3)]
        client.push("", "q", "greet_together", pushed, batch=3)
        with pytest.raises(OSError, match="no process for a job"):
            child.round()
        counts = client.queue("q").counts()
        assert (counts.waiting, counts.running) == (3, 0)
        assert not (child.buffer.held or child.buffer.leaders)

    def test_each_pause_is_longer_until_a_job_has_run(
        self, child: ForkChild, no_fork: OSError, put: Put, client: Client,
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        """That the server answers between two tries is no recovery."""
        jid = put("give", 1)
        for tries in range(1, 4):
            with pytest.raises(OSError, match="no process") as caught:
                child.round()
            child.trouble(caught.value)
            assert child.troubles == tries
        assert "recovered" not in caplog.text
        monkeypatch.setattr(child, "fork_and_wait", lambda order: (b"complete", 1, 0))
        child.round()
        assert child.troubles == 0
        child.channel.settle()
        assert client.get(jid).state == "complete"  # type: ignore[union-attr]

    def test_what_is_to_be_announced_waits_for_one(
        self, child: ForkChild, no_fork: OSError, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        child.crash_reports.append(CrashReport("jid", "7", "group", "message"))
        child.announce()
        assert [report.jid for report in child.crash_reports] == ["jid"]
        monkeypatch.setattr(child, "fork_and_wait", lambda order: (b"", 1, 0))
        child.announce()
        assert child.crash_reports == []


def reserved(jid: str = "jid", klass: str = "give", **fields: Any) -> Reserved:
    job = Reserved(jid, "q", klass, '{"args": [1]}', "7", 3, 3, 0, "[]", "", 0.0)
    return job._replace(**fields)


class TestCrashedJob:
    def test_it_is_settled_though_the_server_cannot_be_asked_about_it(
        self,
        child: ForkChild,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Only what is announced is less than it could be."""

        def fail(*args: Any) -> None:
            raise ConnectionLost("away")

        monkeypatch.setattr("django_qless.worker.pools.fork.exhausted_run", fail)
        monkeypatch.setattr(stacks, "take_dump", lambda: "")
        settlement = child.crashed(reserved(), 1234, -9)
        assert (settlement.jid, settlement.token, settlement.verb) == (
            *("jid", "7"),
            "crash",
        )
        [report] = child.crash_reports
        assert (report.group, report.exhausted) == ("worker-crash", None)
        assert "retries not looked at" in caplog.text

    @pytest.mark.parametrize(
        ("said", "verbs"),
        [
            *((said, ["crash", "crash"]) for said in (None, b"", b"rubbish", b"3")),
            *((said, ["crash", "crash"]) for said in (b"[1, 2]", b'["complete"]')),
            (b'["complete", "rubbish"]', ["complete", "crash"]),
        ],
    )
    def test_entities_without_an_end_of_their_own_have_crashed(
        self,
        child: ForkChild,
        monkeypatch: pytest.MonkeyPatch,
        said: bytes | None,
        verbs: list[str],
    ) -> None:
        """The process has written something else, or of fewer entities."""
        monkeypatch.setattr(stacks, "take_dump", lambda: "")
        monkeypatch.setattr("django_qless.worker.pools.fork.exhausted_run", nothing)
        jobs = [reserved("a"), reserved("b")]
        items = [Item(n, job, 0.0, LockTerm()) for n, job in enumerate(jobs)]
        monkeypatch.setattr(child, "fork_and_wait", lambda order: (said, 1234, 3))
        ends = child.perform_entities(jobs, items)
        assert [end.jid for end in ends] == ["a", "b"]
        assert [end.verb for end in ends] == verbs


def nothing(*args: Any) -> None:
    return None


class TestJobProcess:
    """What a job's process does with its order; here it is this process."""

    @pytest.fixture(autouse=True)
    def no_copies(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "register_at_fork", lambda **calls: None)

    def ends(self, child: ForkChild, *jobs: Reserved, until: float) -> list[Settlement]:
        """Return how entities end whose locks hold until then (boottime)."""
        term = LockTerm(until=until, length=60.0)
        held = [(n, tuple(job), term.values) for n, job in enumerate(jobs)]
        parts = unpacked_list(child.do(marshal.dumps((held, True, 0))), len(jobs))
        return [
            settlement
            for job, part in zip(jobs, parts, strict=True)
            if part is not None and (settlement := unpacked(job, part))
        ]

    def test_a_job_has_ended_though_the_cleanup_after_it_fails(
        self,
        child: ForkChild,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        def fail() -> None:
            raise RuntimeError("the connection is closed already")

        monkeypatch.setattr(child.environment, "leave_thread", fail)
        order = (0, tuple(reserved()), False, LockTerm().values)
        settlement = unpacked(reserved(), child.do(marshal.dumps(order)))
        assert settlement is not None
        assert settlement.verb == "complete"
        assert "the connection is closed already" in caplog.text

    def test_entities_whose_lock_has_run_out_are_not_run(
        self, child: ForkChild
    ) -> None:
        jobs = [reserved(jid, "greet_together", batch=2) for jid in "ab"]
        ends = self.ends(child, *jobs, until=1.0)
        assert [(end.jid, end.verb) for end in ends] == [
            ("a", "release"),
            ("b", "release"),
        ]

    @pytest.mark.parametrize("batch", [0, 1])
    def test_nothing_is_begun_after_the_time_to_stop(
        self, child: ForkChild, batch: int
    ) -> None:
        """The command came while the process was made."""
        child.shared.ints[shared_state.INTERRUPT] = 1
        job = reserved(klass="greet_together" if batch else "give", batch=batch)
        if batch:
            [settlement] = self.ends(child, job, until=boottime() + 60)
        else:
            order = (0, tuple(job), False, LockTerm().values)
            found = unpacked(job, child.do(marshal.dumps(order)))
            assert found is not None
            settlement = found
        assert (settlement.verb, settlement.held) == ("release", None)

    def test_the_hard_limit_of_entities_is_shown_to_the_parent(
        self, server: Server, child: ForkChild
    ) -> None:
        child.environment.queue_limits = {"q": [None, 60.0]}  # type: ignore[attr-defined]
        data = '{"v": 1, "entity": "e", "payloads": [1]}'
        job = reserved(klass="greet_together", batch=2, data=data)
        slot = child.shared.take(job.jid, job.token, 0.0)
        child.shared.begin(slot, 0.0)
        term = LockTerm(until=boottime() + 60, length=60.0)
        held = [(slot, tuple(job), term.values)]
        [part] = unpacked_list(child.do(marshal.dumps((held, True, 0))), 1)
        assert part == b"complete"
        [shown] = child.shared.held_jobs().running
        assert shown.hard == 60.0


def test_what_is_not_settled_early_is_tried_again_after_a_pause(
    child: ForkChild, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(2):
        put("give", n)
    child.channel.reserve(2)
    child.early.begin_batch(child.channel.taken, time.monotonic())
    with monkeypatch.context() as away:
        away.setattr(child.channel, "settle_early", lambda: False)
        child.settle_early()
    assert child.early.since > time.monotonic()
    assert len(child.buffer.outcomes) == 2
    child.settle_early()
    assert child.early.since == 0.0
    assert not child.buffer.outcomes
