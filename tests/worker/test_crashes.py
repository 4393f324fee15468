"""Processes that die, hang or are suspended under a job."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.real_servers import poll
from tests.worker.conftest import is_alive, no_new_connections
from tests.worker.ledger import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


def running(ledger: Ledger, name: str, times: int = 1) -> int:
    """Return the process that runs this job for the nth time, when it does."""

    def pids() -> list[int]:
        lines = [line.split() for line in ledger.all()]
        return [int(line[2]) for line in lines if line[:2] == ["running", name]]

    poll(lambda: len(pids()) >= times, what=f"{name} runs ({ledger.lines})")
    return pids()[times - 1]


def test_a_killed_job_runs_again_and_ends_in_worker_crash(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    jid = put("stay", ledger.path, gate.path, "victim", retries=0)
    worker = start_worker(queues=["q"])
    pids = []
    for times in range(1, 5):
        pids.append(running(ledger, "victim", times))
        os.kill(pids[-1], signal.SIGKILL)
    job = job_when(jid, "failed")
    assert job.failure is not None
    assert job.failure.group == "worker-crash"
    assert "SIGKILL" in job.failure.message
    assert job.remaining == 0
    assert len(set(pids)) == 4
    # The worker goes on.
    other = put("give", 1)
    job_when(other, "complete")
    assert worker.process.poll() is None


def test_a_crash_does_not_touch_the_jobs_of_others(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    put("stay", ledger.path, gate.path, "bystander")
    start_worker(queues=["q"], concurrency=2)
    bystander = running(ledger, "bystander")
    jid = put("exit_at_once", ledger.path, 7)
    job = job_when(jid, "failed")
    assert job.failure is not None
    assert "code 7" in job.failure.message
    assert is_alive(bystander)
    gate.open()
    ledger.wait_for("over bystander")
    assert ledger.lines.count(f"running {jid}") == 4


@pytest.mark.parametrize(
    ("klass", "args", "words"),
    [("exit_at_once", (0,), "code 0"), ("segfault", (), "SIGSEGV")],
)
def test_every_way_to_die_is_a_crash(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    job_when: JobWhen,
    klass: str,
    args: tuple[object, ...],
    words: str,
) -> None:
    jid = put(klass, ledger.path, *args)
    start_worker(queues=["q"])
    job = job_when(jid, "failed")
    assert job.failure is not None
    assert job.failure.group == "worker-crash"
    assert words in job.failure.message


def test_a_fatal_error_leaves_its_stack_in_the_failure(
    start_worker: StartWorker, put: Put, job_when: JobWhen
) -> None:
    jid = put("abort")
    start_worker(queues=["q"])
    failure = job_when(jid, "failed").failure
    assert failure is not None
    assert "SIGABRT" in failure.message
    assert "in abort" in failure.message


def test_who_ran_beside_a_killer_goes_free(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    """In one process it is unknown which job killed it; afterwards they run apart."""
    bystander = put("stay", ledger.path, gate.path, "bystander", retries=0)
    start_worker(queues=["q"], pool="threads", concurrency=3)
    running(ledger, "bystander")
    killer = put("exit_at_once", ledger.path, 3)
    job = job_when(killer, "failed")
    assert job.failure is not None
    assert job.failure.group == "worker-crash"
    running(ledger, "bystander", times=2)
    # All at once again, when everybody is known.
    two = [put("stay", ledger.path, gate.path, f"more-{n}") for n in range(2)]
    for n in range(2):
        running(ledger, f"more-{n}")
    gate.open()
    assert job_when(bystander, "complete").crashes <= 1
    for jid in two:
        assert job_when(jid, "complete")
    assert ledger.all().count(f"running {killer}") == 4


def test_a_crash_in_a_batch_gives_the_others_back(
    start_worker: StartWorker, put: Put, ledger: Ledger, job_when: JobWhen
) -> None:
    """The ledger, outside Redis, shows that nothing is lost and little is repeated."""
    before = [put("say", ledger.path, "before", n, retries=0) for n in range(200)]
    bad = put("exit_at_once", ledger.path, 1)
    after = [put("say", ledger.path, "after", n, retries=0) for n in range(200)]
    start_worker(queues=["q"])
    job_when(bad, "failed")
    for jid in before + after:
        assert job_when(jid, "complete").remaining == 0
    assert ledger.all().count(f"running {bad}") == 4
    for word in ("before", "after"):
        told = ledger.starting_with(word)
        assert set(told) == {str(n) for n in range(200)}
        # At most what one batch had finished and not settled, per crash.
        assert len(told) <= 200 + 4 * 100


def test_a_crash_while_the_server_is_away_is_settled_afterwards(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    job_when: JobWhen,
    client: Client,
) -> None:
    client.config_set("heartbeat", 3600)
    jid = put("stay", ledger.path, gate.path, "job", retries=0)
    start_worker(queues=["q"])
    first = running(ledger, "job")

    def refused() -> int:
        return int(client.redis.info("stats")["rejected_connections"])

    before = refused()
    with no_new_connections(client):
        os.kill(first, signal.SIGKILL)
        poll(lambda: not is_alive(first), what="the job's process is gone")
        poll(lambda: refused() > before, what="the worker tries in vain")
    assert running(ledger, "job", times=2) != first
    gate.open()
    assert job_when(jid, "complete").crashes == 1


def test_killed_at_any_moment_no_job_is_lost(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    """Locks last for an hour here: they are not what brings the jobs back."""
    client.config_set("heartbeat", 3600)
    jids = [put("tell_process", ledger.path, n, retries=0) for n in range(4000)]
    start_worker(queues=["q"], concurrency=2, verbosity=1)
    kills = 20
    for n in range(kills):
        lines = ledger.wait_until(min(4000, (n + 1) * 100))
        with suppress(ProcessLookupError):
            os.kill(int(lines[-1].split()[2]), signal.SIGKILL)
    poll(lambda: not client.length("q"), what="the queue is empty", seconds=30)
    assert {job.state for job in client.multiget(jids)} == {"complete"}
    told = ledger.starting_with("ran")
    assert set(told) == {str(n) for n in range(4000)}
    assert len(told) <= 4000 + kills * 100


def test_what_a_job_started_dies_with_it(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate
) -> None:
    put("start_sleeper", ledger.path, gate.path)
    start_worker(queues=["q"])
    (line,) = ledger.wait_until(1)
    grandchild, child = map(int, line.split()[1:])
    os.kill(child, signal.SIGKILL)
    poll(lambda: not is_alive(grandchild), what="the grandchild is gone")


def test_everything_dies_with_the_parent(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate
) -> None:
    put("start_sleeper", ledger.path, gate.path)
    worker = start_worker(queues=["q"], concurrency=2)
    (line,) = ledger.wait_until(1)
    put("hold_gil", 1000, ledger.path)
    ledger.wait_for("running")
    family = worker.family()
    assert {*map(int, line.split()[1:])} <= {*family}
    worker.signal("KILL")
    for pid in family:
        poll(lambda pid=pid: not is_alive(pid), what=f"{pid} is gone")


def test_without_its_zygote_a_worker_begins_anew_and_keeps_what_has_ended(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    tmp_path: Path,
    job_when: JobWhen,
) -> None:
    later = Gate(tmp_path / "later")
    ended = put("stay", ledger.path, gate.path, "ended", retries=0)
    cut = put("stay", ledger.path, later.path, "cut", retries=0)
    worker = start_worker(queues=["q"], concurrency=2)
    title = Path(f"/proc/{running(ledger, 'ended')}/cmdline")
    running(ledger, "cut")
    [zygote] = children_of(worker.pid)
    worker.signal("STOP")
    os.kill(zygote, signal.SIGKILL)
    poll(lambda: not is_alive(zygote), what="the zygote has ended")
    gate.open()
    poll(lambda: "idle" in title.read_text(), what="the outcome is sent")
    worker.signal("CONT")
    running(ledger, "cut", times=2)
    later.open()
    for jid in (ended, cut):
        assert job_when(jid, "complete").crashes == 0
    assert ledger.all().count("over ended") == 1
    assert "garbage" not in worker.output
    later.close()


def test_the_jobs_of_a_killed_worker_are_run_by_another(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    job_when: JobWhen,
    client: Client,
) -> None:
    client.config_set("heartbeat", 1)
    client.config_set("grace-period", 0)
    jid = put("stay", ledger.path, gate.path, "job")
    worker = start_worker(queues=["q"])
    running(ledger, "job")
    # The other one is idle: only the expiry of the lock can wake it.
    start_worker(queues=["q"])
    worker.signal("KILL")
    running(ledger, "job", times=2)
    gate.open()
    job_when(jid, "complete")
    assert ledger.all().count("over job") == 1


def test_a_job_that_forks_does_not_become_two_workers(
    start_worker: StartWorker, put: Put, ledger: Ledger, job_when: JobWhen
) -> None:
    jid = put("fork_and_return", ledger.path)
    start_worker(queues=["q"], burst=True).wait()
    assert job_when(jid, "complete")
    assert ledger.all() == ["returned 0"]


def test_a_suspended_child_loses_its_lock_and_cannot_settle(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    job_when: JobWhen,
    client: Client,
) -> None:
    client.config_set("heartbeat", 1)
    client.config_set("grace-period", 0)
    jid = put("stay", ledger.path, gate.path, "job", retries=3)
    start_worker(queues=["q"])
    first = running(ledger, "job")
    os.kill(first, signal.SIGSTOP)
    start_worker(queues=["q"])
    second = running(ledger, "job", times=2)
    os.kill(first, signal.SIGCONT)
    # The worker hears that the lock is lost, and kills it.
    poll(lambda: not is_alive(first), what="the first is gone")
    assert is_alive(second)
    # A lost lock uses up a retry, a crash would not have.
    assert job_when(jid, "running").remaining == 2
    gate.open()
    job_when(jid, "complete")
    assert ledger.all().count("over job") == 1


def test_locks_outlast_a_job_that_holds_the_interpreter(
    start_worker: StartWorker, put: Put, job_when: JobWhen, client: Client
) -> None:
    """No other worker gets the job, though nothing else in its process can run."""
    client.config_set("heartbeat", 2)
    client.config_set("grace-period", 0)
    jid = put("hold_gil", 6)
    start_worker(queues=["q"])
    start_worker(queues=["q"])
    job = job_when(jid, "complete")
    assert job.remaining == job.retries
    assert [entry["what"] for entry in job.history] == ["put", "popped", "done"]


def test_a_cancelled_job_is_killed(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    job_when: JobWhen,
    client: Client,
) -> None:
    client.config_set("heartbeat", 1)
    jid = put("stay", ledger.path, gate.path, "job")
    start_worker(queues=["q"])
    pid = running(ledger, "job")
    client.cancel(jid)
    poll(lambda: not is_alive(pid), what="the job's process is gone")
    other = put("give", 1)
    job_when(other, "complete")
    assert client.get(jid).canceled.was == "running"


def test_a_suspended_job_runs_into_its_hard_timeout(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, job_when: JobWhen
) -> None:
    jid = put("stay", ledger.path, gate.path, "job", retries=0)
    start_worker(queues=["q"], limits={"q": {"hard_timeout": 1.0}})
    pid = running(ledger, "job")
    os.kill(pid, signal.SIGSTOP)
    job = job_when(jid, "failed")
    assert job.failure is not None
    assert job.failure.group == "timeout"
    assert "hard timeout of 1 s" in job.failure.message
    assert not is_alive(pid)


def test_a_hard_timeout_uses_up_a_retry_and_tells_where_it_was(
    start_worker: StartWorker, put: Put, ledger: Ledger, job_when: JobWhen
) -> None:
    jid = put("hold_gil", 1000, ledger.path, retries=1)
    other = put("give", 1, queue="other")
    start_worker(queues=["q", "other"], limits={"q": {"hard_timeout": 0.3}})
    # Long before the worker would wake for something else.
    ledger.wait_for("running", times=2)
    job = job_when(jid, "failed")
    assert (job.remaining, job.crashes) == (-1, 0)
    assert job.failure is not None
    assert "in hold_gil" in job.failure.message
    # Each killed child has been replaced.
    assert job_when(other, "complete")
    assert ledger.all().count("running") == 2


def test_a_blocked_event_loop_is_ended_and_only_its_culprit_blamed(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    job_when: JobWhen,
    client: Client,
) -> None:
    """Until then all locks are kept, though nothing else can run."""
    client.config_set("heartbeat", 1)
    client.config_set("grace-period", 0)
    bystander = put("stay", ledger.path, gate.path, "bystander", retries=0)
    options = {"pool": "coroutines", "concurrency": 2, "block_limit": 2.0}
    worker = start_worker(queues=["q"], **options)
    running(ledger, "bystander")
    culprit = put("block_loop", ledger.path, retries=0)
    ledger.wait_for("blocked")
    first = {jid: job_when(jid, "running").expires for jid in (culprit, bystander)}

    def is_kept(jid: str) -> bool:
        job = client.get(jid)
        assert job is not None
        assert [entry["what"] for entry in job.history] == ["put", "popped"]
        return job.expires > first[jid] + 0.5

    for jid in first:
        poll(lambda jid=jid: is_kept(jid), what="the lock is renewed")
    worker.wait_for_log("in block_loop")
    running(ledger, "bystander", times=2)
    ledger.wait_for("blocked", times=2)
    for jid, crashes in ((culprit, 1), (bystander, 0)):
        job = job_when(jid, "running")
        assert (job.remaining, job.crashes) == (0, crashes)


def children_of(pid: int) -> list[int]:
    """Return the processes that this one has started and that still run."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [pid for pid in map(int, text.split()) if is_alive(pid)]
