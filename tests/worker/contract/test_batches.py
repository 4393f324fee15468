"""Many short jobs in one round trip, and nothing that waits for a long one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.worker.runs import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger
    from tests.worker.stage import Stage


def test_a_slow_job_keeps_no_other_waiting(stage: Stage) -> None:
    """While it runs, the finished ones are settled and the held ones have gone back."""
    jids = stage.put_records(range(100), priority=1, retries=0)
    slow = stage.put_hold("ahold", "slow", retries=0)
    jids += stage.put_records(range(100, 200), priority=-1, retries=0)
    stage.start()
    stage.run_of("slow")
    finished = {int(run.name) for run in stage.runs.ended()}
    assert finished, "it comes after others"
    for number in finished:
        stage.job_when(jids[number], "complete")
    left = set(range(200)) - finished
    stage.wait(
        lambda: (
            (seen := stage.client.queue_counts("q")).running == 1
            and seen.waiting == len(left)
        ),
        "what was held is back in the queue",
    )
    # Others may run it meanwhile.
    stage.start(concurrency=2)
    for number in left:
        assert stage.job_when(jids[number], "complete").remaining == 0
    assert stage.run_of("slow").is_open
    stage.latch().open()
    stage.job_when(slow, "complete")
    counts = count([*range(200), "slow"], stage.runs.all())
    assert counts[1:] == (0, 0, 0, 0, 0)


def test_a_job_slow_for_its_type_keeps_no_other_waiting(stage: Stage) -> None:
    """It has come in one message with others of its type, which are quick."""
    jids = [stage.put_run("record", n) for n in range(400)]
    stage.put_run("record", "slow", 4)
    jids += [stage.put_run("record", n) for n in range(400, 500)]
    stage.start()
    stage.run_of("slow")
    done = {int(run.name) for run in stage.runs.ended()}
    for number in done:
        stage.job_when(jids[number], "complete")
    stage.wait(
        lambda: (
            (seen := stage.client.queue_counts("q")).running == 1
            and seen.waiting == 500 - len(done)
        ),
        "what was held is back in the queue",
    )
    assert stage.run_of("slow").is_open


def test_held_jobs_go_back_when_the_worker_stops(stage: Stage) -> None:
    jids = stage.put_records(range(100), priority=1, retries=0)
    slow = stage.put_hold("hold", "slow", retries=0)
    jids += stage.put_records(range(100, 200), priority=-1, retries=0)
    worker = stage.start()
    stage.run_of("slow")
    worker.signal("TERM")
    worker.wait_for_log("SIGTERM")
    stage.latch().open()
    assert worker.wait() == 0
    assert stage.job(slow).state == "complete"
    finished = {int(run.name) for run in stage.runs.ended() if run.name != "slow"}
    for number, job in enumerate(stage.client.multiget(jids)):
        assert job.state == ("complete" if number in finished else "waiting")
        assert job.remaining == 0


def test_batches_are_announced_around_their_jobs(
    start_worker: Callable[..., WorkerProcess],
    put: Callable[..., str],
    ledger: Ledger,
    pool: str,
) -> None:
    """Before the first job of each and after its last; no job runs outside of them."""
    for number in range(40):
        put("say", ledger.path, number)
    worker = start_worker(queues=["q"], pool=pool, batches=ledger.path, burst=True)
    assert worker.wait() == 0
    lines = ledger.all()
    assert sorted(line for line in lines if line.isdigit()) == sorted(
        map(str, range(40))
    )
    begun = [line.split() for line in lines if line.startswith("started")]
    done = [line.split() for line in lines if line.startswith("finished")]
    assert sum(int(size) for _, size, _ in begun) >= 40
    assert sorted(size for _, size, _ in begun) == sorted(size for _, size, _ in done)
    assert sum(int(ran) for *_, ran in done) == 40
    assert lines[0] == "started 1 -" if pool != "threads" else lines[0][:7] == "started"
    assert lines[-1].startswith("finished")
    covered = 0
    for line in lines:
        word, *rest = line.split()
        covered += int(rest[0]) if word == "started" else 0
        covered -= int(rest[0]) if word == "finished" else 0
        assert covered > 0 or word == "finished", lines
