"""Workers that are told to end while their jobs go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.chaos.rows.shared import (
    left_alive,
    now,
    tally_complete,
    tally_runs,
    wait_for_all,
)

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

KLASSES = ("hold", "ahold", "insist", "ainsist")


@row(times=5, quick=0)
def term_past_the_timeout(stage: Stage, tally: Tally, times: int) -> None:
    """TERM, and jobs that go on past the timeout: handed back, no retry used up."""
    end_often(stage, tally, times, timeout=0.5, signals=1)


@row(times=5, quick=0)
def term_twice(stage: Stage, tally: Tally, times: int) -> None:
    """TERM twice: all stops at once, the jobs are handed back."""
    end_often(stage, tally, times, timeout=3600, signals=2)


def end_often(
    stage: Stage, tally: Tally, times: int, *, timeout: float, signals: int
) -> None:
    """End one worker after the other under the same jobs; let the last one be."""
    names = [f"{klass}-{n}" for n in range(2) for klass in KLASSES]
    jids = [stage.put_hold(name.partition("-")[0], name, retries=0) for name in names]
    left = used = 0
    longest = 0.0
    for n in range(times):
        worker = stage.start(concurrency=len(names), shutdown_timeout=timeout)
        for name in names:
            stage.run_of(name, times=n + 1)
        family = worker.family()
        began = now()
        for sent in range(signals):
            worker.signal("TERM")
            worker.wait_for_log("SIGTERM", times=sent + 1)
        assert worker.wait() == 0
        longest = max(longest, now() - began)
        left += left_alive(stage, family)
        for jid in jids:
            job = stage.job(jid)
            used += job.state != "waiting" or job.crashes + (job.remaining != 0)
    tally.note("ends", times)
    if signals > 1:
        tally.at_most("longest end, seconds", longest, 2)
    else:
        # The timeout, and five seconds in which jobs may answer the exception.
        tally.at_most("longest end, seconds", longest, timeout + 5 + 2)
    tally.exactly("processes left behind", left, 0)
    tally.exactly("jobs not handed back, or blamed", used, 0)
    stage.latch().open()
    stage.start(concurrency=len(names))
    tally_complete(tally, wait_for_all(stage, jids))
    tally_runs(stage, tally, names, repeated=0)
