"""Ticks of schedules: each puts one job; what becomes of missed ones; who looks after cron."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import digest
from tests.core.test_schedules import due, make, shown, taken

MINUTE = 1_700_000_040
"""A time in whole minutes."""

EARLY = 2**-10
"""What a score lies before the time if it is no tick and the time is whole."""


def looked(
    keyed: Keyed, worker: str = "w", now: float = 0, count: int = 100
) -> tuple[float, bool, list[tuple[str, ...]]]:
    """Look as a worker does: seconds, whether it leads, what is due."""
    seconds, told, leads, flat = keyed.call("schedule.due", worker, count, now=now)
    assert float(told) == now
    found = [tuple(flat[n : n + 6]) for n in range(0, len(flat), 6)]
    return float(seconds), leads == 1, found


def tick(keyed: Keyed, *ticks: tuple[Any, ...], now: float) -> list[int]:
    """Tell ticks: id, score, first, following, last, next."""
    reply: list[int] = keyed.call(
        "schedule.tick", *[part for each in ticks for part in each], now=now
    )
    return reply


def jobs(keyed: Keyed) -> list[str]:
    return sorted(keyed.server.zrange("ql:q:queue-work", 0, -1))


@pytest.fixture
def minutely(keyed: Keyed) -> Keyed:
    """A namespace with a cron schedule whose next tick is MINUTE."""
    keyed.call("config.set", "heartbeat", 10**6, now=0)
    make(keyed, cron="* * * * *", now=MINUTE - 5)
    tick(keyed, ("s", MINUTE - 5 - EARLY, "", "", "", MINUTE), now=MINUTE - 5)
    return keyed


class TestMissedIntervals:
    @pytest.mark.parametrize(
        ("missed", "now", "count", "then"),
        [
            ("all", 100, 1, 160), ("last", 100, 1, 160), ("none", 100, 1, 160),
            ("all", 130, 1, 160), ("last", 130, 1, 160), ("none", 130, 1, 160),
            ("all", 131, 1, 160), ("last", 131, 1, 160), ("none", 131, 0, 160),
            ("all", 700, 11, 760), ("last", 700, 1, 760), ("none", 700, 1, 760),
            ("all", 750, 11, 760), ("last", 750, 1, 760), ("none", 750, 0, 760),
        ],
    )  # fmt: skip
    def test_missed_ticks_of_a_minute(
        self, keyed: Keyed, missed: str, now: float, count: int, then: float
    ) -> None:
        make(keyed, now=100, missed=missed)
        assert len(taken(keyed, now)) == count
        assert due(keyed) == then
        assert len(taken(keyed, now)) == 0

    @pytest.mark.parametrize(("late", "count"), [(59, 1), (60, 1), (61, 0)])
    def test_missed_ticks_of_a_day(self, keyed: Keyed, late: float, count: int) -> None:
        make(keyed, interval=86400, missed="none", now=1000)
        assert len(taken(keyed, 1000 + late)) == count

    def test_the_last_one_tells_its_tick(self, keyed: Keyed) -> None:
        make(keyed, now=100)
        [jid] = taken(keyed, 750)
        assert keyed.job(jid)["history"][0]["when"] == 700
        assert (shown(keyed)["last"], shown(keyed)["count"]) == (700, 1)

    def test_all_are_carried_on_when_more_is_asked_for(self, keyed: Keyed) -> None:
        keyed.call("config.set", "heartbeat", 10**6, now=0)
        make(keyed, now=100, missed="all")
        assert taken(keyed, 700, 4) == ["s-1", "s-2", "s-3", "s-4"]
        assert len(taken(keyed, 700)) == 7

    def test_all_within_a_backlog(self, keyed: Keyed) -> None:
        make(keyed, now=100, missed="all", backlog=2)
        assert len(taken(keyed, 700)) == 3

    def test_fractions_do_not_wear_the_rhythm_down(self, keyed: Keyed) -> None:
        keyed.call("config.set", "heartbeat", 10**6, now=0)
        make(keyed, now=100.25, interval=1.5, missed="all")
        for n in range(40):
            taken(keyed, 100.25 + 1.5 * n)
        assert due(keyed) == 160.25
        assert shown(keyed)["count"] == 40

    def test_each_tick_once_however_many_pop(self, keyed: Keyed) -> None:
        keyed.call("config.set", "heartbeat", 10**6, now=0)
        make(keyed, now=100, interval=1)
        for n in range(30):
            assert taken(keyed, 100 + n) == [f"s-{n + 1}"]
            assert taken(keyed, 100 + n + 0.9) == []


class TestTheJobOfATick:
    @pytest.mark.parametrize("kind", ["interval", "cron"])
    def test_the_job_of_a_tick_has_the_options_of_its_schedule(
        self, keyed: Keyed, kind: str
    ) -> None:
        given: dict[str, Any] = {"priority": 7, "retries": 2, "tags": ["t"], "context": {"a": 1},
                                 "unique": "key", "expires": 30}  # fmt: skip
        if kind == "cron":
            make(keyed, cron="* * * * *", now=MINUTE - 5, data="[1]", **given)
            tick(keyed, ("s", MINUTE - 5 - EARLY, MINUTE, MINUTE + 60, MINUTE, MINUTE + 60),
                 now=MINUTE + 1)  # fmt: skip
            jid = f"s@{MINUTE}"
        else:
            make(keyed, now=MINUTE, data="[1]", **given)
            jid = "s-1"
        [job] = keyed.take(1, now=MINUTE + 1)
        assert job["jid"] == jid
        assert (job["data"], job["priority"], job["retries"]) == ("[1]", "7", "2")
        assert (json.loads(job["tags"]), job["context"]) == (["t"], '{"a": 1}')
        record = keyed.job(jid)
        assert (record["spawned_from_jid"], record["deadline"]) == ("s", MINUTE + 30)
        assert keyed.put("other", MINUTE + 1, unique="key") == jid
        assert keyed.violations() == []
        keyed.settle([settlement(jid, job["token"], "complete")], now=MINUTE + 2)
        assert keyed.put("other", MINUTE + 2, unique="key") == "other"

    def test_the_key_names_the_job_put_last(self, keyed: Keyed) -> None:
        keyed.call("config.set", "heartbeat", 10**6, now=0)
        make(keyed, now=100, unique="key")
        first = keyed.take(1, now=100)
        keyed.take(1, now=160)
        assert keyed.put("other", 160, unique="key") == "s-2"
        end = settlement("s-1", first[0]["token"], "complete")
        keyed.settle([end], now=161)
        assert keyed.put("other", 161, unique="key") == "s-2"

    def test_an_expired_tick_does_not_start(self, keyed: Keyed) -> None:
        make(keyed, now=100, expires=5)
        keyed.call("schedule.run", "s", now=100)
        assert taken(keyed, 106) == []  # also counted from the tick that it puts late
        assert keyed.core.json("failed", 106) == {"expired": 2}
        assert taken(keyed, 161) == ["s-3"]

    def test_a_tick_wakes_a_worker_and_is_counted(self, minutely: Keyed) -> None:
        _, *names = minutely.settle([], 1, wait=100, now=MINUTE - 1).rest
        tick(
            minutely,
            ("s", MINUTE, MINUTE, MINUTE + 60, MINUTE, MINUTE + 60),
            now=MINUTE,
        )
        assert minutely.is_woken(names)
        minute = MINUTE // 60
        counted = minutely.json("minutes", "queue", minute, minute, now=MINUTE)
        assert counted["put"] == {str(minute): 1}


class TestCron:
    def test_a_new_one_is_due_at_once_to_be_worked_out(self, keyed: Keyed) -> None:
        make(keyed, cron="0 3 * * *", timezone="Asia/Kathmandu", now=100.25)
        assert looked(keyed, now=100.25) == (
            3.0, True,
            [("s", "100.25", "100.25", "0 3 * * *", "Asia/Kathmandu", "last")],
        )  # fmt: skip
        assert tick(keyed, ("s", 100.25, "", "", "", 10800), now=100.25) == [0]
        assert (shown(keyed)["next"], jobs(keyed)) == (10800, [])
        assert looked(keyed, now=200) == (3.0, True, [])

    def test_due_schedules_come_with_their_policy(self, keyed: Keyed) -> None:
        for missed in ("all", "last", "none"):
            make(keyed, missed, cron="* * * * *", missed=missed, now=100)
        found = looked(keyed, now=200)[2]
        assert {each[0]: each[5] for each in found} == {
            "all": "all", "last": "last", "none": "none",
        }  # fmt: skip

    def test_a_tick_puts_one_job(self, minutely: Keyed) -> None:
        now = MINUTE + 0.004
        assert looked(minutely, now=now)[2] == [
            ("s", str(MINUTE), "", "* * * * *", "UTC", "last")
        ]
        told = ("s", MINUTE, MINUTE, MINUTE + 60, MINUTE, MINUTE + 60)
        assert tick(minutely, told, told, now=now) == [1, 0]
        assert tick(minutely, told, now=now) == [0]
        assert jobs(minutely) == [f"s@{MINUTE}"]
        after = shown(minutely)
        assert (after["next"], after["last"], after["count"]) == (
            MINUTE + 60, MINUTE, 1,
        )  # fmt: skip

    def test_a_job_that_is_there_is_left_alone(self, minutely: Keyed) -> None:
        minutely.put(f"s@{MINUTE}", MINUTE, data="[0]")
        told = ("s", MINUTE, MINUTE, MINUTE + 60, MINUTE, MINUTE + 60)
        assert tick(minutely, told, now=MINUTE) == [0]
        assert minutely.job(f"s@{MINUTE}")["data"] == "[0]"
        assert shown(minutely)["next"] == MINUTE + 60

    @pytest.mark.parametrize("ahead", [0.001, 30, 3600])
    def test_no_tick_before_its_time(self, minutely: Keyed, ahead: float) -> None:
        told = ("s", MINUTE, MINUTE, MINUTE + 60, MINUTE, MINUTE + 60)
        assert tick(minutely, told, now=MINUTE - ahead) == [0]
        assert (shown(minutely)["next"], jobs(minutely)) == (MINUTE, [])

    @pytest.mark.parametrize(
        ("missed", "late", "put"),
        [
            ("last", 0, [0]), ("last", 59, [0]), ("last", 310, [5]),
            ("none", 30, [0]), ("none", 31, []), ("none", 310, [5]), ("none", 331, []),
            ("all", 310, [0, 1, 2, 3, 4, 5]),
        ],
    )  # fmt: skip
    def test_missed_ticks(
        self, minutely: Keyed, missed: str, late: int, put: list[int]
    ) -> None:
        minutely.call("schedule.update", "s", "missed", missed, now=MINUTE - 4)
        ticks = [MINUTE + 60 * n for n in range(late // 60 + 1)]
        last, then = ticks[-1], ticks[-1] + 60
        chain = [("s", at, at, at + 60, last, then) for at in ticks]
        tick(minutely, *chain, now=MINUTE + late)
        assert jobs(minutely) == [f"s@{MINUTE + 60 * n}" for n in put]
        assert shown(minutely)["next"] == then

    def test_a_change_wins_over_a_tick_under_way(self, minutely: Keyed) -> None:
        make(minutely, cron="0 0 * * *", now=MINUTE)
        told = ("s", MINUTE, MINUTE, MINUTE + 60, MINUTE, MINUTE + 60)
        assert tick(minutely, told, now=MINUTE) == [0]
        minutely.call("schedule.pause", "s", now=MINUTE)
        assert tick(minutely, told, now=MINUTE) == [0]
        minutely.call("schedule.remove", "s", now=MINUTE)
        assert tick(minutely, told, now=MINUTE) == [0]
        assert jobs(minutely) == []

    def test_a_resumed_one_counts_from_then_on(self, minutely: Keyed) -> None:
        minutely.call("schedule.pause", "s", now=MINUTE - 1)
        minutely.call("schedule.resume", "s", now=MINUTE + 500)
        [(_, score, since, *_)] = looked(minutely, now=MINUTE + 500)[2]
        assert (float(score), float(since)) == (MINUTE + 500 - EARLY, MINUTE + 500)

    def test_a_short_pause_changes_nothing(self, minutely: Keyed) -> None:
        minutely.call("schedule.pause", "s", now=MINUTE - 2)
        minutely.call("schedule.resume", "s", now=MINUTE - 1)
        assert shown(minutely)["next"] == MINUTE

    @pytest.mark.parametrize(
        "args",
        [("s",), ("s", "x", "", "", "", 5), ("s", 5, "", "", "", ""), ("s", 5, 1, 1, 1, 2),
         ("s", 5, 1, 2, 0, 2), ("s", 5, 1, 2, 3, 3), ("s", 5, 1.5, 2, 3, 4),
         ("s", 5, "", "", "", -1), ("s", 5, -1, 2, 3, 4)],
    )  # fmt: skip
    def test_nonsense_is_refused(self, minutely: Keyed, args: tuple[Any, ...]) -> None:
        before = digest(minutely.server)
        text = minutely.refusal("schedule.tick", *args, now=MINUTE)
        assert text.startswith("BADARG")
        assert digest(minutely.server) == before

    def test_ticks_may_be_as_early_as_can_be(self, minutely: Keyed) -> None:
        told = ("nosuch", 0, "", "", "", 0), ("nosuch", 0, 0, 1, 0, 1)
        assert tick(minutely, *told, now=MINUTE) == [0, 0]

    def test_a_thousand_at_most(self, minutely: Keyed) -> None:
        told = ("s", 1, 1, 2, 1, 2)
        assert tick(minutely, *[told] * 1000, now=MINUTE) == [0] * 1000
        text = minutely.refusal("schedule.tick", *[*told] * 1001)
        assert text.startswith("TOOBIG")


class TestLease:
    def test_one_ticker_leads_at_a_time(self, minutely: Keyed) -> None:
        assert looked(minutely, "a", MINUTE)[1]
        seconds, leads, found = looked(minutely, "b", MINUTE)
        assert (leads, found) == (False, [])
        assert 0 < seconds <= 6
        assert looked(minutely, "a", MINUTE)[2]

    def test_the_next_look_comes_before_the_next_tick(self, minutely: Keyed) -> None:
        assert looked(minutely, now=MINUTE - 1.5)[0] == 1.5
        assert looked(minutely, now=MINUTE - 5)[0] == 3.0

    def test_much_that_is_due_comes_in_parts(self, keyed: Keyed) -> None:
        for n in range(5):
            make(keyed, f"s{n}", cron="* * * * *", now=n)
        seconds, _, found = looked(keyed, now=10, count=2)
        assert (seconds, [each[0] for each in found]) == (0, ["s0", "s1"])
        for count in (4, 5):  # Others are left, or there may be others.
            assert looked(keyed, now=10, count=count)[0] == 0
        assert looked(keyed, now=10, count=6)[0] == 3

    def test_a_ticker_that_ends_gives_its_lease_up(self, minutely: Keyed) -> None:
        looked(minutely, "a", MINUTE)
        minutely.call("worker.deregister", "b", now=MINUTE)
        assert not looked(minutely, "b", MINUTE)[1]
        minutely.call("worker.deregister", "b", "a", now=MINUTE)
        assert looked(minutely, "b", MINUTE)[1]

    def test_the_leader_hears_of_changes(self, minutely: Keyed) -> None:
        looked(minutely, "a", MINUTE - 4)
        told = [("w:a", '{"event":"schedules","worker":"a"}')]
        changes = {
            "schedule.set": ("t", "q", "k", "{}", "cron", "* * * * *"),
            "schedule.update": ("s", "timezone", "Asia/Kathmandu"),
            "schedule.pause": ("s",),
            "schedule.resume": ("s",),
            "schedule.run": ("s",),
            "schedule.remove": ("s",),
        }
        heard_of = []
        for command, args in changes.items():
            with minutely.core.listening() as heard:
                minutely.call(command, *args, now=MINUTE - 3)
            if heard == told:
                heard_of.append(command.removeprefix("schedule."))
        assert heard_of == ["set", "update", "resume"]
