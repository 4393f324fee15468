"""Many short jobs in one round trip, and nothing that waits for a long one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.worker.runs import count

if TYPE_CHECKING:
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
