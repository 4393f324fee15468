"""The ticker: which jobs it enqueues when, and which worker is it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Client, DueSchedule, Tick
from django_qless.core.schedule import Missed
from django_qless.worker.ticker import CHAIN, due_ticks, serve
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.real_servers import Server
    from tests.worker.stage import Stage

MINUTE = int(datetime(2026, 3, 29, 1, 0, tzinfo=UTC).timestamp())
"""When clocks in Berlin go from 2:00 to 3:00."""

FOREVER = 10**6


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.client()) as client:
        client.script.now = MINUTE - 30.5
        client.config_set("heartbeat", FOREVER)
        yield client


def jobs(client: Client) -> list[str]:
    return sorted(job.jid for job in client.peek("q", 1000))


def wall(client: Client, schedule: str, zone: str = "Europe/Berlin") -> str:
    """Return what the clock will show at the next tick."""
    from zoneinfo import ZoneInfo

    found = client.schedule_get(schedule)
    assert found is not None
    assert found.next is not None
    return datetime.fromtimestamp(found.next, ZoneInfo(zone)).strftime("%d %H:%M")


def test_new_schedule_ticks_first_at_its_next_time(client: Client) -> None:
    client.schedule_set("s", "q", "k", "{}", cron="* * * * *")
    assert serve(client, "w") == 3.0
    assert wall(client, "s", "UTC") == "29 01:00"
    client.script.now = MINUTE - 1.25
    assert serve(client, "w") == 1.25
    client.script.now = MINUTE + 0.001
    assert serve(client, "w") == 3.0
    assert jobs(client) == [f"s@{MINUTE}"]
    assert wall(client, "s", "UTC") == "29 01:01"


def test_ticks_follow_a_change_of_the_clock(client: Client) -> None:
    client.schedule_set(
        "s", "q", "k", "{}", cron="30 2 * * *", timezone="Europe/Berlin"
    )
    serve(client, "w")
    assert wall(client, "s") == "29 03:00"
    client.script.now = MINUTE
    serve(client, "w")
    assert jobs(client) == [f"s@{MINUTE}"]
    assert wall(client, "s") == "30 02:30"


def test_an_interval_ticks_at_once_and_then_in_its_rhythm(client: Client) -> None:
    client.schedule_set("s", "q", "k", "{}", every=1.5)
    begun = MINUTE - 30.5
    for n in range(3):
        client.script.now = begun + 1.5 * n
        assert serve(client, "w") == 1.5
    assert jobs(client) == [f"s@{begun + 3:.3f}"]  # No worker has asked for the others.


@pytest.mark.parametrize(
    ("missed", "first", "count"),
    [("last", 34, 1), ("none", 0, 0), ("all", 0, 35)],
)
def test_missed_ticks_follow_the_policy(
    client: Client, missed: str, first: int, count: int
) -> None:
    client.schedule_set("s", "q", "k", "{}", cron="* * * * *", missed=missed)  # type: ignore[arg-type]
    serve(client, "w")
    client.script.now = MINUTE + 34 * 60 + 40
    turns = 1
    while serve(client, "w") == 0:
        turns += 1
    assert turns <= 5
    assert jobs(client) == sorted(
        f"s@{MINUTE + 60 * n}" for n in range(first, first + count)
    )
    assert wall(client, "s", "UTC") == "29 01:35"


def test_many_schedules_take_several_turns(client: Client) -> None:
    for n in range(250):
        client.schedule_set(f"s{n}", "q", "k", "{}", cron="* * * * *")
    while serve(client, "w") == 0:
        pass
    client.script.now = MINUTE
    turns = 1
    while serve(client, "w") == 0:
        turns += 1
    assert turns == 3
    assert len(jobs(client)) == 250


def test_another_worker_waits_for_the_lease(client: Client) -> None:
    client.schedule_set("s", "q", "k", "{}", cron="* * * * *")
    serve(client, "w")
    client.script.now = MINUTE
    assert 1 < serve(client, "other") <= 7
    assert jobs(client) == []
    client.deregister("w")
    serve(client, "other")
    assert jobs(client) == [f"s@{MINUTE}"]


def test_two_leaders_enqueue_one_job(client: Client) -> None:
    client.schedule_set("s", "q", "k", "{}", cron="* * * * *")
    serve(client, "a")
    client.script.now = MINUTE
    [due] = client.schedule_due("a").schedules
    client.deregister("a")
    [same] = client.schedule_due("b").schedules
    ticks = list(due_ticks(due, MINUTE)), list(due_ticks(same, MINUTE))
    assert [client.schedule_tick(each) for each in ticks] == [[True], [False]]
    assert jobs(client) == [f"s@{MINUTE}"]


def test_a_broken_schedule_does_not_hold_up_the_others(client: Client) -> None:
    client.schedule_set("a", "q", "k", "{}", cron="what ever")
    client.schedule_set("b", "q", "k", "{}", cron="* * * * *", timezone="No/Where")
    client.schedule_set("c", "q", "k", "{}", cron="* * * * *")
    serve(client, "w")
    client.script.now = MINUTE
    serve(client, "w")
    assert jobs(client) == [f"c@{MINUTE}"]
    troubles = [client.schedule_get(each) for each in "abc"]
    assert [each and each.trouble for each in troubles] == [
        "cron 'what ever' has 2 fields, but five are needed: minute, hour, day of the "
        "month, month, day of the week",
        "time zone 'No/Where' is unknown: name one such as 'Europe/Berlin' or 'UTC'",
        None,
    ]


def cron(
    score: str, missed: Missed = "last", since: float | None = None
) -> DueSchedule:
    return DueSchedule("s", score, since, "", "* * * * *", "UTC", missed)


def every(
    seconds: float, missed: Missed = "last", since: float | None = None
) -> DueSchedule:
    return DueSchedule("s", "100", since, str(seconds), "", "", missed)


def test_no_tick_is_due_yet() -> None:
    assert list(due_ticks(cron("5.5", since=5.5), 59)) == [Tick("s", "5.5", next=60)]
    assert list(due_ticks(every(60, since=40), 99)) == [Tick("s", "100", next=100)]


def test_first_tick_after_a_time_between_ticks() -> None:
    assert list(due_ticks(cron("5.5", since=5.5), 61)) == [
        Tick("s", "5.5", 60, None, 120)
    ]


def test_last_of_several_missed_ticks() -> None:
    assert list(due_ticks(cron("60"), 200)) == [Tick("s", "60", 180, None, 240)]
    assert list(due_ticks(every(60), 239.9)) == [Tick("s", "100", 220, None, 280)]


def test_none_of_several_missed_ticks_unless_it_is_in_time() -> None:
    for due, ticks in (
        (cron("60", "none"), (180, 210, 240)),
        (every(60, "none"), (160, 190, 220)),
        (every(86400, "none"), (100, 160, 86500)),
    ):
        assert list(due_ticks(due, 200)) == [Tick("s", due.score, *ticks)]


def test_all_of_several_missed_ticks() -> None:
    assert list(due_ticks(cron("60", "all"), 200)) == [
        Tick("s", "60", 60, None, 120),
        Tick("s", "120", 120, None, 180),
        Tick("s", "180", 180, None, 240),
    ]
    assert [tick.tick for tick in due_ticks(every(1.5, "all"), 104)] == [
        100,
        101.5,
        103,
    ]
    assert len(list(due_ticks(cron("60", "all"), 10**6))) == CHAIN


def test_a_tick_is_due_at_its_second() -> None:
    assert [tick.tick for tick in due_ticks(cron("60", "all"), 119.9)] == [60]
    assert [tick.tick for tick in due_ticks(cron("60", "all"), 120)] == [60, 120]


def has_next_tick(client: Client, schedule: str) -> Callable[[], bool]:
    def check() -> bool:
        found = client.schedule_get(schedule)
        return found is not None and found.next is not None

    return check


class TestInAWorker:
    """In real workers, by the real clock: what does not have to wait for a minute."""

    @pytest.fixture
    def stage(self, server: Server, tmp_path: Path) -> Iterator[Stage]:
        from tests.worker.stage import Stage

        with Stage(server, tmp_path, "prefork") as stage:
            yield stage

    def test_new_schedules_get_their_next_tick(self, stage: Stage) -> None:
        stage.start().wait_for_log("started")
        redis = stage.client.redis
        poll(lambda: redis.exists("ql:ticker"), what="a worker leads")
        for n in range(5):
            stage.client.schedule_set(f"s{n}", "q", "give", "{}", cron="0 0 1 1 *")
            poll(has_next_tick(stage.client, f"s{n}"), what="it has its next tick")

    def test_another_worker_takes_over_from_a_killed_leader(self, stage: Stage) -> None:
        workers = {}
        for _ in range(2):
            worker = stage.start()
            worker.wait_for_log("started")
            workers[worker.pid] = worker
        redis = stage.client.redis
        leader = poll(lambda: redis.get("ql:ticker"), what="a worker leads").decode()
        pid = next(pid for pid in workers if f"-{pid}-" in leader)
        workers[pid].signal("KILL")
        stage.client.schedule_set("s", "q", "give", "{}", cron="0 0 1 1 *")
        poll(
            has_next_tick(stage.client, "s"), what="another has taken over", seconds=30
        )
        assert redis.get("ql:ticker").decode() != leader

    def test_a_worker_that_ends_gives_up_the_lease(self, stage: Stage) -> None:
        worker = stage.start()
        redis = stage.client.redis
        poll(lambda: redis.exists("ql:ticker"), what="a worker leads")
        worker.signal("TERM")
        assert worker.wait() == 0
        assert not redis.exists("ql:ticker")

    def test_a_burst_makes_up_for_missed_ticks(self, stage: Stage) -> None:
        client = stage.client
        client.schedule_set("s", "q", "give", '{"v": 1, "args":[1]}', cron="* * * * *")
        # It has been due for an hour.
        tick = int(client.redis.time()[0]) // 60 * 60 - 3600
        client.redis.zadd("ql:schedules", {"s": tick})
        client.redis.hdel("ql:schedule:s", "since")
        stage.run()
        schedule = client.schedule_get("s")
        assert schedule is not None
        assert schedule.count == 1
        assert stage.job(f"s@{int(schedule.last or 0)}").state == "complete"

    def test_a_quiet_worker_still_serves_schedules(self, stage: Stage) -> None:
        worker = stage.start()
        worker.wait_for_log("started")
        worker.signal("TSTP")
        worker.wait_for_log("quiet")
        stage.client.schedule_set("s", "q", "give", "{}", cron="0 0 1 1 *")
        poll(has_next_tick(stage.client, "s"), what="it has its next tick")
