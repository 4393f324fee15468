"""What the log says of ends of jobs: the same in every pool, each of them once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.worker.stage import FLAVOURS

if TYPE_CHECKING:
    from tests.worker.stage import Stage


def test_each_end_is_logged_once(stage: Stage) -> None:
    done, fallen, hidden = [], [], []
    for a in FLAVOURS:
        done.append(stage.put(f"{a}answer", 1))
        fallen.append(stage.put_run(f"{a}fall", f"{a}fall", retries=1))
        hidden.append(stage.put_run(f"{a}fall_secretly", f"{a}hidden", retries=0))
    unknown = stage.put("from_the_next_version")
    worker = stage.run(concurrency=2)
    lines = worker.output.splitlines()

    def told(jid: str) -> list[str]:
        """Return what was logged of a job: level and event."""
        found = [line for line in lines if f"jid={jid}" in line]
        return [" ".join(line.split()[3:5]) for line in found]

    for jid in done:
        assert told(jid) == ["DEBUG done"]
    for jid in fallen:
        assert told(jid) == ["WARNING failed,", "ERROR failed"]
    for jid in hidden:
        assert told(jid) == ["ERROR failed"]
    assert told(unknown) == ["WARNING unknown"]
    # Of each failure for good there is the traceback, from the job's own code on.
    starts = [
        at
        for at, line in enumerate(lines)
        if line.startswith("Traceback (most recent call last):")
    ]
    assert len(starts) == len(fallen + hidden)
    for at in starts:
        assert "contract_jobs.py" in lines[at + 1]
    assert lines.count("LookupError: nothing there") == len(starts)


def test_a_hard_timeout_is_logged_as_what_it_is(stage: Stage) -> None:
    again = stage.put_hold("insist_briefly", "again", "never", retries=1)
    worker = stage.start(concurrency=1)
    stage.job_when(again, "failed")
    told = [line.split()[3] for line in worker.output.splitlines() if again in line]
    assert told == ["WARNING", "ERROR"]
