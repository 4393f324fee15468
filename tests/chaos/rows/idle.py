"""Very many workers that have nothing to do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.chaos.rows.shared import LONG, now, tally_runs

if TYPE_CHECKING:
    import redis

    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

WATCHED = 20.0
"""Seconds for which calls are counted."""

CALLS = ("fcall", "fcall_ro", "eval", "evalsha", "evalsha_ro", "bzpopmin", "ping")


@row(times=16, quick=6)
def due_together(stage: Stage, tally: Tally, times: int) -> None:
    """Delayed jobs fall due at the same moment; as many idle workers begin at once."""
    one_each = stage.pool in ("threads", "coroutines")
    for _ in range(2):
        stage.start(concurrency=times // 2 + (times if one_each else 1))
    redis = stage.server.client()
    stage.wait(lambda: redis.info("clients")["blocked_clients"] >= 2, "both wait", LONG)
    redis.close()
    for n in range(times):
        stage.put_hold("ahold" if n % 2 else "hold", n, delay=1)
    due = now() + 1
    starts = [stage.run_of(n).start - due for n in range(times)]
    tally.at_most("longest time to the start, seconds", max(starts), 1)
    stage.latch().open()
    for n in range(times):
        stage.end_of(n)
    tally_runs(stage, tally, range(times), repeated=0)


@row(times=100)
def idle_workers(stage: Stage, tally: Tally, times: int) -> None:
    """100 idle workers; then ten delayed jobs fall due."""
    for _ in range(times):
        stage.start(verbosity=1)
    stage.wait(lambda: len(stage.client.workers()) == times, "all are there", LONG)
    redis = stage.server.client(decode_responses=True)
    stage.wait(
        lambda: redis.info("clients")["blocked_clients"] >= times, "all wait", LONG
    )
    before, began = calls(redis), now()
    time.sleep(WATCHED)
    rate = (calls(redis) - before) / (now() - began) / times
    tally.at_most("calls per idle worker and second", rate, 2)

    due = 10
    before, began = calls(redis), now()
    for n in range(due):
        stage.put_run("record", n, delay=1 + n / 10)
    for n in range(due):
        stage.end_of(n)
    longest = max((redis.zcard(k) for k in redis.keys("*wake:*")), default=0)
    spent = calls(redis) - before - due
    allowed = 2 * due + 2 * times * (now() - began)
    tally.at_most("calls while ten jobs fell due", spent, allowed)
    tally.note(
        "calls for them beyond those of idle workers",
        spent - rate * times * (now() - began),
    )
    tally.at_most("members of a marker", longest, 1)
    tally_runs(stage, tally, range(due), repeated=0)
    redis.close()


def calls(redis: redis.Redis) -> int:
    """Return how many calls the server has had from workers and producers."""
    stats = redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in CALLS)
