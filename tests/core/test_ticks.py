"""Ticks of schedules: each puts one job; queues that no worker asks; who is the ticker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement
from tests.core.test_schedules import due, looked, make, shown, taken, tick

MINUTE = 1_700_000_040
"""A time in whole minutes."""

EARLY = 2**-10
"""What a score lies before the time if it is no tick and the time is whole."""


def at(time: float, then: float | None = None, missed_at: Any = "") -> tuple[Any, ...]:
    """Return the tick of "s" at this time, which it is due at."""
    return ("s", time, time, missed_at, then or time + 60, "")


def jobs(keyed: Keyed) -> list[str]:
    return sorted(keyed.server.zrange("ql:q:queue-work", 0, -1))


def began(keyed: Keyed, **pairs: Any) -> Keyed:
    """Make a cron schedule whose next tick is MINUTE."""
    make(keyed, now=MINUTE - 5, **({"cron": "* * * * *"} | pairs))
    tick(keyed, ("s", MINUTE - 5 - EARLY, "", "", MINUTE, ""), now=MINUTE - 5)
    return keyed


@pytest.fixture
def minutely(keyed: Keyed) -> Keyed:
    keyed.call("config.set", "heartbeat", 10**6, now=0)
    return began(keyed)


class TestTheJobOfATick:
    def test_it_has_all_that_the_schedule_says(self, keyed: Keyed) -> None:
        began(keyed, priority=7, retries=2, tags=["t"], context={"a": 1}, unique="key",
              expires=30, data="[1]")  # fmt: skip
        tick(keyed, at(MINUTE), now=MINUTE + 1)
        jid = f"s@{MINUTE}"
        assert keyed.server.get("ql:unique:key") == jid
        [job] = keyed.take(1, now=MINUTE + 1)
        assert (job["jid"], job["data"]) == (jid, "[1]")
        assert (job["priority"], job["retries"]) == ("7", "2")
        assert (json.loads(job["tags"]), job["context"]) == (["t"], '{"a": 1}')
        record = keyed.job(jid)
        assert (record["spawned_from_jid"], record["deadline"]) == ("s", MINUTE + 30)
        assert record["history"][0]["when"] == MINUTE
        keyed.settle([settlement(jid, job["token"], "complete")], now=MINUTE + 2)
        assert keyed.put("other", MINUTE + 2, unique="key") == "other"

    def test_the_key_names_the_job_put_last(self, keyed: Keyed) -> None:
        began(keyed, unique="key")
        tick(keyed, at(MINUTE), now=MINUTE)
        [first] = keyed.take(1, now=MINUTE)
        tick(keyed, at(MINUTE + 60), now=MINUTE + 60)
        assert keyed.server.get("ql:unique:key") == f"s@{MINUTE + 60}"
        end = settlement(first["jid"], first["token"], "complete")
        keyed.settle([end], now=MINUTE + 61)
        assert keyed.server.get("ql:unique:key") == f"s@{MINUTE + 60}"

    def test_its_place_and_its_wait_count_from_the_tick(self, minutely: Keyed) -> None:
        minutely.put("between", MINUTE + 5)
        tick(minutely, at(MINUTE), now=MINUTE + 10)
        taken = minutely.take(now=MINUTE + 20)
        assert [job["jid"] for job in taken] == [f"s@{MINUTE}", "between"]
        waits = minutely.json("stats", "queue", MINUTE + 20, now=MINUTE + 20)["wait"]
        assert waits["mean"] == 17.5

    def test_putting_it_says_nothing(self, minutely: Keyed) -> None:
        with minutely.core.listening() as heard:
            tick(minutely, at(MINUTE), now=MINUTE)
        assert heard == []

    def test_its_minute_is_counted(self, minutely: Keyed) -> None:
        tick(minutely, at(MINUTE), now=MINUTE)
        minute = MINUTE // 60
        counted = minutely.json("minutes", "queue", minute, minute, now=MINUTE)
        assert counted["put"] == {str(minute): 1}


class TestTicks:
    def test_a_new_one_is_due_at_once_to_be_computed(self, keyed: Keyed) -> None:
        make(keyed, cron="0 3 * * *", timezone="Asia/Kathmandu", now=100.25)
        assert looked(keyed, "w", 100.25) == (
            3.0, True,
            [("s", "100.25", "100.25", "", "0 3 * * *", "Asia/Kathmandu", "last")],
        )  # fmt: skip
        assert tick(keyed, ("s", 100.25, "", "", 10800, ""), now=100.25) == [0]
        assert (shown(keyed)["next"], jobs(keyed)) == (10800, [])
        assert looked(keyed, "w", 200) == (3.0, True, [])

    def test_an_interval_is_due_at_its_tick(self, keyed: Keyed) -> None:
        make(keyed, missed="none", now=100.25)
        assert looked(keyed, "w", 200)[2] == [("s", "100.25", "", "60", "", "", "none")]

    def test_one_without_a_record_is_dropped(self, minutely: Keyed) -> None:
        minutely.server.zadd("ql:schedules", {"ghost": MINUTE - 1})
        assert [each[0] for each in looked(minutely, "w", MINUTE)[2]] == ["s"]
        assert minutely.server.zrange("ql:schedules", 0, -1) == ["s"]

    def test_a_tick_puts_one_job(self, minutely: Keyed) -> None:
        now = MINUTE + 0.004
        assert looked(minutely, "w", now)[2] == [
            ("s", str(MINUTE), "", "", "* * * * *", "UTC", "last")
        ]
        assert tick(minutely, at(MINUTE), at(MINUTE), now=now) == [1, 0]
        assert tick(minutely, at(MINUTE), now=now) == [0]
        assert jobs(minutely) == [f"s@{MINUTE}"]
        after = shown(minutely)
        assert (after["next"], after["last"], after["count"]) == (
            MINUTE + 60, MINUTE, 1,
        )  # fmt: skip

    def test_ticks_of_intervals_may_have_fractions(self, keyed: Keyed) -> None:
        keyed.call("config.set", "heartbeat", 10**6, now=0)
        make(keyed, now=100.25, interval=1.5)
        for n in range(40):
            then = 100.25 + 1.5 * n
            assert len(taken(keyed, then)) == 1
            assert taken(keyed, then + 1.4) == []
        assert (due(keyed), shown(keyed)["count"]) == (160.25, 40)

    def test_a_job_that_is_there_is_left_alone(self, minutely: Keyed) -> None:
        minutely.put(f"s@{MINUTE}", MINUTE, data="[0]")
        assert tick(minutely, at(MINUTE), now=MINUTE) == [0]
        assert minutely.job(f"s@{MINUTE}")["data"] == "[0]"
        assert shown(minutely)["next"] == MINUTE + 60

    def test_no_tick_before_its_time(self, minutely: Keyed) -> None:
        assert tick(minutely, at(MINUTE), now=MINUTE - 0.001) == [0]
        assert (shown(minutely)["next"], jobs(minutely)) == (MINUTE, [])

    @pytest.mark.parametrize(("now", "count"), [(30, 1), (30.001, 0)])
    def test_one_that_comes_too_late_puts_nothing(
        self, minutely: Keyed, now: float, count: int
    ) -> None:
        told = at(MINUTE, missed_at=MINUTE + 30)
        assert tick(minutely, told, now=MINUTE + now) == [count]
        assert shown(minutely)["next"] == MINUTE + 60

    def test_a_tick_under_way_comes_too_late_for_a_pause(self, minutely: Keyed) -> None:
        for command in ("schedule.pause", "schedule.remove"):
            minutely.call(command, "s", now=MINUTE)
            assert tick(minutely, at(MINUTE), now=MINUTE) == [0]
        assert jobs(minutely) == []

    def test_a_resumed_one_counts_from_then_on(self, minutely: Keyed) -> None:
        minutely.call("schedule.pause", "s", now=MINUTE - 1)
        minutely.call("schedule.resume", "s", now=MINUTE + 500)
        [(_, score, since, *_)] = looked(minutely, "w", MINUTE + 500)[2]
        assert (float(score), float(since)) == (MINUTE + 500 - EARLY, MINUTE + 500)

    def test_a_schedule_goes_on_behind_its_tick(self, minutely: Keyed) -> None:
        text = minutely.refusal("schedule.tick", *at(MINUTE, MINUTE), now=MINUTE)
        assert text.startswith("BADARG")
        assert (shown(minutely)["next"], jobs(minutely)) == (MINUTE, [])

    def test_a_thousand_at_most(self, minutely: Keyed) -> None:
        told = ("s", 1, 1, "", 2, "")
        assert tick(minutely, *[told] * 1000, now=MINUTE) == [0] * 1000
        text = minutely.refusal("schedule.tick", *[*told] * 1001)
        assert text.startswith("TOOBIG")


class TestAQueueThatNoWorkerAsks:
    """It has one job of a schedule at most, that of the last tick."""

    @staticmethod
    def pass_by(keyed: Keyed, missed: str, minutes: int) -> None:
        """Let ticks pass, each in its time."""
        began(keyed, missed=missed)
        for n in range(minutes):
            time = MINUTE + 60 * n
            late = time + 30 if missed == "none" else ""
            assert tick(keyed, at(time, missed_at=late), now=time) == [1]

    @pytest.mark.parametrize(
        ("missed", "now", "left"),
        [
            ("all", 250, [0, 1, 2, 3, 4]),
            ("last", 299, [4]),
            ("none", 269, [4]), ("none", 270, [4]), ("none", 270.001, []),
        ],
    )  # fmt: skip
    def test_when_a_worker_asks(
        self, keyed: Keyed, missed: str, now: float, left: list[int]
    ) -> None:
        self.pass_by(keyed, missed, 5)
        found = [job["jid"] for job in keyed.take(now=MINUTE + now)]
        assert found == [f"s@{MINUTE + 60 * n}" for n in left]
        assert shown(keyed)["count"] == len(left)

    def test_an_old_client_asks(self, keyed: Keyed) -> None:
        self.pass_by(keyed, "none", 5)
        assert keyed.core.popped(MINUTE + 280) == []

    def test_a_job_that_was_offered_stays(self, keyed: Keyed) -> None:
        """Others go first; the next ticks put further jobs."""
        keyed.call("config.set", "heartbeat", 10**6, now=0)
        began(keyed)
        for n in range(3):
            time = MINUTE + 60 * n
            keyed.put(f"first{n}", time, priority=9)
            tick(keyed, at(time), now=time)
            assert [job["jid"] for job in keyed.take(1, now=time + 1)] == [f"first{n}"]
        assert jobs(keyed) == [f"s@{MINUTE + 60 * n}" for n in range(3)]

    def test_a_paused_queue(self, keyed: Keyed) -> None:
        began(keyed)
        keyed.call("pause", "queue", now=MINUTE)
        for n in range(3):
            tick(keyed, at(MINUTE + 60 * n), now=MINUTE + 60 * n)
            assert keyed.take(now=MINUTE + 60 * n + 1) == []
        assert jobs(keyed) == [f"s@{MINUTE + 120}"]

    def test_a_job_on_which_others_wait_stays(self, keyed: Keyed) -> None:
        began(keyed)
        tick(keyed, at(MINUTE), now=MINUTE)
        keyed.put("after", MINUTE, queue="other", depends=[f"s@{MINUTE}"])
        tick(keyed, at(MINUTE + 60), now=MINUTE + 60)
        assert jobs(keyed) == [f"s@{MINUTE}", f"s@{MINUTE + 60}"]

    def test_its_key_goes_over_to_the_last_one(self, keyed: Keyed) -> None:
        began(keyed, unique="key")
        for n in range(2):
            tick(keyed, at(MINUTE + 60 * n), now=MINUTE + 60 * n)
        assert keyed.server.get("ql:unique:key") == f"s@{MINUTE + 60}"


class TestTrouble:
    def test_it_is_shown_and_tried_again_and_no_tick_is_forgotten(
        self, minutely: Keyed
    ) -> None:
        told = ("s", MINUTE, "", "", "", "no such zone")
        assert tick(minutely, told, now=MINUTE + 1) == [0]
        assert shown(minutely)["trouble"] == "no such zone"
        assert "next" not in shown(minutely)
        assert looked(minutely, "w", MINUTE + 60)[2] == []
        [(_, score, since, *_)] = looked(minutely, "w", MINUTE + 61)[2]
        assert (float(score), float(since)) == (MINUTE + 61 - EARLY, MINUTE - 1)
        tick(minutely, ("s", score, "", "", "", "again"), now=MINUTE + 61)
        [(_, score, since, *_)] = looked(minutely, "w", MINUTE + 200)[2]
        assert float(since) == MINUTE - 1
        told = ("s", score, MINUTE + 180, "", MINUTE + 240, "")
        assert tick(minutely, told, now=MINUTE + 200) == [1]
        assert jobs(minutely) == [f"s@{MINUTE + 180}"]
        assert "trouble" not in shown(minutely)

    def test_an_interval_keeps_its_rhythm(self, keyed: Keyed) -> None:
        make(keyed, now=100)
        tick(keyed, ("s", 100, "", "", "", "why"), now=110)
        assert taken(keyed, 170) == ["s@160"]
        assert due(keyed) == 220

    def test_no_tick_is_forgotten_of_one_that_cannot_be_read(
        self, minutely: Keyed
    ) -> None:
        minutely.server.hset("ql:schedule:s", "tags", "[")
        assert tick(minutely, at(MINUTE), now=MINUTE + 1) == [0]
        assert "tags is not JSON" in shown(minutely)["trouble"]
        [(_, score, since, *_)] = looked(minutely, "w", MINUTE + 61)[2]
        assert (float(score), float(since)) == (MINUTE + 61 - EARLY, MINUTE - 1)
        refused = minutely.refusal("schedule.run", "s", now=MINUTE + 61)
        assert refused.startswith("STATE schedule.run(): Schedule s: ")

    def test_a_template_that_cannot_be_read_holds_up_no_other(
        self, keyed: Keyed
    ) -> None:
        for which in ("a", "b"):
            keyed.core.old("recur", 0, "queue", which, "k", "{}", "interval", 60, 0)
        keyed.server.hset("ql:r:a", "interval", "soon")
        assert keyed.core.popped(1) == ["b-1"]
        assert "interval" in shown(keyed, "a")["trouble"]
        keyed.core.old("recur.update", 2, "a", "interval", 60)
        assert keyed.core.popped(61) == ["b-2", "a-1"]
        assert "trouble" not in shown(keyed, "a")

    def test_a_long_text_is_cut_between_its_letters(self, minutely: Keyed) -> None:
        text = "x" + 600 * "ä"
        tick(minutely, ("s", MINUTE, "", "", "", text), now=MINUTE + 1)
        assert shown(minutely)["trouble"] == text[:500]

    def test_of_one_that_went_on_meanwhile(self, minutely: Keyed) -> None:
        tick(minutely, ("s", MINUTE - 60, "", "", "", "old news"), now=MINUTE)
        assert "trouble" not in shown(minutely)


class TestTheTicker:
    def test_it_comes_again_before_the_next_tick(self, minutely: Keyed) -> None:
        assert looked(minutely, "w", MINUTE - 1.5)[0] == 1.5
        assert looked(minutely, "w", MINUTE - 5)[0] == 3.0

    def test_much_that_is_due_comes_in_parts(self, keyed: Keyed) -> None:
        for n in range(5):
            make(keyed, f"s{n}", cron="* * * * *", now=n)
        seconds, _, found = looked(keyed, "w", 10, 2)
        assert (seconds, [each[0] for each in found]) == (0, ["s0", "s1"])
        for count in (4, 5):  # Others are left, or there may be others.
            assert looked(keyed, "w", 10, count)[0] == 0
        assert looked(keyed, "w", 10, 6)[0] == 3

    def test_a_lease_from_before_the_clock_was_set_back_ends(
        self, keyed: Keyed
    ) -> None:
        looked(keyed, "dead", 0)
        keyed.server.pexpire("ql:ticker", 3600 * 1000)
        assert looked(keyed, "alive", 0)[1]

    def test_it_hears_of_changes(self, minutely: Keyed) -> None:
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
