"""Who looks after cron schedules: when it looks, what it works out, what stops it not."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Client, DueSchedule, Tick
from django_qless.worker import ticker as module
from django_qless.worker.ticker import Ticker, due_ticks
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


@pytest.fixture
def ticker(client: Client) -> Ticker:
    return Ticker(client, "w")


def jobs(client: Client) -> list[str]:
    return sorted(job.jid for job in client.peek("q", 1000))


def wall(client: Client, schedule: str, zone: str = "Europe/Berlin") -> str:
    """Return what the clock will show at the next tick."""
    from zoneinfo import ZoneInfo

    found = client.schedule_get(schedule)
    assert found is not None
    assert found.next is not None
    return datetime.fromtimestamp(found.next, ZoneInfo(zone)).strftime("%d %H:%M")


class TestLooking:
    def test_a_new_schedule_and_its_first_tick(
        self, client: Client, ticker: Ticker
    ) -> None:
        client.schedule_set("s", "q", "k", "{}", cron="* * * * *")
        assert ticker.tick() == 3.0
        assert wall(client, "s", "UTC") == "29 01:00"
        client.script.now = MINUTE - 1.25
        assert ticker.tick() == 1.25
        client.script.now = MINUTE + 0.001
        assert ticker.tick() == 3.0
        assert jobs(client) == [f"s@{MINUTE}"]
        assert wall(client, "s", "UTC") == "29 01:01"

    def test_over_a_change_of_the_clock(self, client: Client, ticker: Ticker) -> None:
        client.schedule_set(
            "s", "q", "k", "{}", cron="30 2 * * *", timezone="Europe/Berlin"
        )
        ticker.tick()
        assert wall(client, "s") == "29 03:00"
        client.script.now = MINUTE
        ticker.tick()
        assert jobs(client) == [f"s@{MINUTE}"]
        assert wall(client, "s") == "30 02:30"

    @pytest.mark.parametrize(
        ("missed", "first", "count"),
        [("last", 34, 1), ("none", 0, 0), ("all", 0, 35)],
    )
    def test_after_an_outage(
        self, client: Client, ticker: Ticker, missed: str, first: int, count: int
    ) -> None:
        client.schedule_set("s", "q", "k", "{}", cron="* * * * *", missed=missed)  # type: ignore[arg-type]
        ticker.tick()
        client.script.now = MINUTE + 34 * 60 + 40
        looks = 1
        while ticker.tick() == 0:
            looks += 1
        assert looks <= 5
        assert jobs(client) == sorted(
            f"s@{MINUTE + 60 * n}" for n in range(first, first + count)
        )
        assert wall(client, "s", "UTC") == "29 01:35"

    def test_very_many_at_once(self, client: Client, ticker: Ticker) -> None:
        for n in range(250):
            client.schedule_set(f"s{n}", "q", "k", "{}", cron="* * * * *")
        while ticker.tick() == 0:
            pass
        client.script.now = MINUTE
        looks = 1
        while ticker.tick() == 0:
            looks += 1
        assert looks == 3
        assert len(jobs(client)) == 250

    def test_who_does_not_lead_waits_for_the_lease(
        self, client: Client, ticker: Ticker
    ) -> None:
        client.schedule_set("s", "q", "k", "{}", cron="* * * * *")
        ticker.tick()
        client.script.now = MINUTE
        assert 1 < Ticker(client, "other").tick() <= 7
        assert jobs(client) == []
        client.deregister("w")
        Ticker(client, "other").tick()
        assert jobs(client) == [f"s@{MINUTE}"]

    def test_two_that_both_lead_put_one_job(self, client: Client) -> None:
        client.schedule_set("s", "q", "k", "{}", cron="* * * * *")
        Ticker(client, "a").tick()
        client.script.now = MINUTE
        [due] = client.schedule_due("a").schedules
        client.deregister("a")
        [same] = client.schedule_due("b").schedules
        ticks = list(due_ticks(due, MINUTE)), list(due_ticks(same, MINUTE))
        assert [client.schedule_tick(each) for each in ticks] == [[True], [False]]
        assert jobs(client) == [f"s@{MINUTE}"]

    def test_what_cannot_be_worked_out_does_not_hold_up_the_others(
        self, client: Client, ticker: Ticker
    ) -> None:
        client.schedule_set("a", "q", "k", "{}", cron="what ever")
        client.schedule_set("b", "q", "k", "{}", cron="* * * * *", timezone="No/Where")
        client.schedule_set("c", "q", "k", "{}", cron="* * * * *")
        ticker.tick()
        client.script.now = MINUTE
        ticker.tick()
        assert jobs(client) == [f"c@{MINUTE}"]
        troubles = [client.schedule_get(each) for each in "abc"]
        assert [each and each.trouble for each in troubles] == [
            "cron 'what ever' has 2 fields, but five are needed: minute, hour, day of the "
            "month, month, day of the week",
            "time zone 'No/Where' is unknown: name one such as 'Europe/Berlin' or 'UTC'",
            None,
        ]


class TestWorkingOut:
    def test_nothing_is_due_yet(self) -> None:
        due = DueSchedule("s", "5.5", 5.5, "* * * * *", "UTC", "last")
        assert list(due_ticks(due, 59)) == [Tick("s", "5.5", None, None, None, 60)]

    def test_since_a_time_that_is_no_tick(self) -> None:
        due = DueSchedule("s", "5.5", 5.5, "* * * * *", "UTC", "last")
        assert list(due_ticks(due, 61)) == [Tick("s", "5.5", 60, 120, 60, 120)]

    def test_several(self) -> None:
        due = DueSchedule("s", "60", None, "* * * * *", "UTC", "last")
        assert list(due_ticks(due, 200)) == [Tick("s", "60", 60, 120, 180, 240)]

    def test_all_of_several(self) -> None:
        due = DueSchedule("s", "60", None, "* * * * *", "UTC", "all")
        assert list(due_ticks(due, 200)) == [
            Tick("s", "60", 60, 120, 180, 240),
            Tick("s", "120", 120, 180, 180, 240),
            Tick("s", "180", 180, 240, 180, 240),
        ]
        assert len(list(due_ticks(due, 10**6))) == module.CHAIN

    def test_a_tick_is_due_at_its_second(self) -> None:
        due = DueSchedule("s", "60", None, "* * * * *", "UTC", "all")
        assert [tick.first for tick in due_ticks(due, 119.9)] == [60]
        assert [tick.first for tick in due_ticks(due, 120)] == [60, 120]


class TestTrouble:
    def test_a_server_that_is_gone(self, server: Server) -> None:
        with Client(server.client(), patience=0.05) as client:
            ticker = Ticker(client, "w")
            server.stop()
            began = time.monotonic()
            ticker.turn()
            ticker.turn()
            assert ticker.due > began + module.RETRY_AFTER * 0.9
            server.start()
            ticker.turn()
            assert ticker.due > time.monotonic() + 1

    def test_others_have_noticed_that_it_is_gone(self, client: Client) -> None:
        ticker = Ticker(client, "w")
        ticker.postpone()
        assert ticker.due > time.monotonic() + 0.5
        ticker.tick_now()
        assert ticker.due <= time.monotonic()


def in_a_while(client: Client, schedule: str) -> Callable[[], bool]:
    def look() -> bool:
        found = client.schedule_get(schedule)
        return found is not None and found.next is not None

    return look


class TestInAWorker:
    """In real workers, by the real clock: what does not have to wait for a minute."""

    @pytest.fixture
    def stage(self, server: Server, tmp_path: Path) -> Iterator[Stage]:
        from tests.worker.stage import Stage

        with Stage(server, tmp_path, "prefork") as stage:
            yield stage

    def test_new_schedules_are_worked_out(self, stage: Stage) -> None:
        stage.start().wait_for_log("started")
        redis = stage.client.redis
        poll(lambda: redis.exists("ql:ticker"), what="somebody looks after schedules")
        for n in range(5):
            stage.client.schedule_set(f"s{n}", "q", "give", "{}", cron="0 0 1 1 *")
            poll(in_a_while(stage.client, f"s{n}"), what="its tick is worked out")

    def test_another_takes_over_when_who_leads_is_killed(self, stage: Stage) -> None:
        workers = {}
        for _ in range(2):
            worker = stage.start()
            worker.wait_for_log("started")
            workers[worker.pid] = worker
        redis = stage.client.redis
        leader = poll(lambda: redis.get("ql:ticker"), what="somebody leads").decode()
        pid = next(pid for pid in workers if f"-{pid}-" in leader)
        workers[pid].signal("KILL")
        stage.client.schedule_set("s", "q", "give", "{}", cron="0 0 1 1 *")
        poll(in_a_while(stage.client, "s"), what="another has taken over", seconds=30)
        assert redis.get("ql:ticker").decode() != leader

    def test_who_ends_gives_up_the_lease(self, stage: Stage) -> None:
        worker = stage.start()
        redis = stage.client.redis
        poll(lambda: redis.exists("ql:ticker"), what="somebody looks after schedules")
        worker.signal("TERM")
        assert worker.wait() == 0
        assert not redis.exists("ql:ticker")

    def test_a_burst_makes_up_for_what_was_missed_and_ends(self, stage: Stage) -> None:
        client = stage.client
        client.schedule_set("s", "q", "give", '{"args":[1]}', cron="* * * * *")
        # It has been due for an hour.
        tick = int(client.redis.time()[0]) // 60 * 60 - 3600
        client.redis.zadd("ql:schedules", {"s": tick})
        client.redis.hdel("ql:schedule:s", "since")
        stage.run()
        schedule = client.schedule_get("s")
        assert schedule is not None
        assert schedule.count == 1
        assert stage.job(f"s@{int(schedule.last or 0)}").state == "complete"

    def test_a_quiet_worker_goes_on(self, stage: Stage) -> None:
        worker = stage.start()
        worker.wait_for_log("started")
        worker.signal("TSTP")
        worker.wait_for_log("quiet")
        stage.client.schedule_set("s", "q", "give", "{}", cron="0 0 1 1 *")
        poll(in_a_while(stage.client, "s"), what="its tick is worked out")
