"""Schedules: making, changing, pausing, listing, running, removing them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.caller import flat
from tests.core.keyed import Keyed, chunks
from tests.core.keyspace import digest

BOTH = [{"interval": 60}, {"cron": "* * * * *"}]


def make(
    keyed: Keyed, which: str = "s", now: float = 0, *, queue: str = "queue",
    data: str = "{}", **pairs: Any,
) -> str:  # fmt: skip
    """Make a schedule; what is given is laid over an interval of a minute."""
    pairs = pairs if "cron" in pairs else {"interval": 60} | pairs
    reply: str = keyed.call(
        "schedule.set", which, queue, "klass", data, *flat(pairs), now=now
    )
    return reply


def shown(keyed: Keyed, which: str = "s", now: float = 0) -> dict[str, Any]:
    found: dict[str, Any] = keyed.json("schedule.get", which, now=now)
    return found


def listed(keyed: Keyed, *args: int, now: float = 0) -> list[str]:
    reply = keyed.json("schedule.list", *args, now=now)
    return [schedule["id"] for schedule in reply["schedules"] or ()]


def due(keyed: Keyed, which: str = "s") -> float | None:
    """Return when an interval schedule goes on; None while it is paused."""
    return shown(keyed, which).get("next")


def looked(keyed: Keyed, worker: str, now: float, count: int = 100) -> Any:
    """Ask as a ticker does: seconds, whether it is the ticker, what is due."""
    seconds, told, leads, flat = keyed.call("schedule.due", worker, count, now=now)
    assert float(told) == now
    return float(seconds), leads == 1, chunks(flat, 7)


def tick(keyed: Keyed, *ticks: tuple[Any, ...], now: float) -> list[int]:
    """Tell ticks: id, score, tick, missed_at, next, trouble."""
    reply: list[int] = keyed.call(
        "schedule.tick", *[part for each in ticks for part in each], now=now
    )
    return reply


def serve(keyed: Keyed, now: float) -> None:
    """Serve intervals as a ticker does: of missed ticks the last one puts a job."""
    for which, score, since, interval, *_ in looked(keyed, "ticker", now)[2]:
        every = float(interval)
        first = float(since) + every if since else float(score)
        last = first + (now - first) // every * every
        if first > now:
            tick(keyed, (which, score, "", "", first, ""), now=now)
        else:
            tick(keyed, (which, score, last, "", last + every, ""), now=now)


def taken(keyed: Keyed, now: float, count: int = 50) -> list[str]:
    """Serve intervals, and reserve jobs."""
    serve(keyed, now)
    return [job["jid"] for job in keyed.take(count, now=now)]


class TestMaking:
    def test_what_is_shown_of_an_interval(self, keyed: Keyed) -> None:
        make(keyed, now=100, name="Clock", tags=["t"], priority=1.5, owner="code:x",
             missed="all", unique="u", expires=9, context={"a": 1}, data="[1]")  # fmt: skip
        assert shown(keyed) == {
            "id": "s", "kind": "interval", "queue": "queue", "klass": "klass",
            "data": "[1]", "priority": 1.5, "retries": 5, "tags": ["t"], "count": 0,
            "interval": 60, "missed": "all", "name": "Clock", "owner": "code:x",
            "unique": "u", "expires": 9, "context": '{"a": 1}', "next": 100,
            "paused": False, "edited": False,
        }  # fmt: skip

    def test_a_cron_schedule_is_shown(self, keyed: Keyed) -> None:
        make(keyed, cron="0 3 * * *", now=100)
        assert shown(keyed) == {
            "id": "s", "kind": "cron", "queue": "queue", "klass": "klass",
            "data": "{}", "priority": 0, "retries": 5, "tags": {}, "count": 0,
            "missed": "last", "cron": "0 3 * * *", "timezone": "UTC",
            "paused": False, "edited": False,
        }  # fmt: skip

    @pytest.mark.parametrize("kind", BOTH, ids=["interval", "cron"])
    def test_old_clients_neither_see_nor_spawn_it(
        self, keyed: Keyed, kind: dict[str, Any]
    ) -> None:
        make(keyed, **kind)
        assert keyed.core.old("recur.get", 1e9, "s") is None
        assert keyed.core.old("jobs", 1e9, "recurring", "queue") == []
        assert keyed.core.pop(1e9) == []

    @pytest.mark.parametrize("kind", BOTH, ids=["interval", "cron"])
    def test_a_kind_can_become_the_other(
        self, keyed: Keyed, kind: dict[str, Any]
    ) -> None:
        make(keyed, now=100, **kind)
        other = next(each for each in BOTH if each != kind)
        assert make(keyed, now=200, **other) == "changed"
        assert shown(keyed)["kind"] == ("cron" if "cron" in other else "interval")
        assert len(listed(keyed)) == 1

    def test_recur_takes_the_id_over(self, keyed: Keyed) -> None:
        make(keyed, cron="* * * * *", owner="code")
        keyed.call("schedule.pause", "s", now=0)
        keyed.core.old("recur", 0, "queue", "s", "k", "{}", "interval", 60, 0)
        after = shown(keyed)
        assert (after["kind"], after["paused"], after.get("owner")) == (
            "interval", False, None,
        )  # fmt: skip
        assert listed(keyed) == ["s"]
        assert keyed.core.popped(0) == ["s-1"]

    def test_unrecur_removes_it(self, keyed: Keyed) -> None:
        make(keyed)
        keyed.core.old("unrecur", 0, "s")
        assert listed(keyed) == []

    @pytest.mark.parametrize(
        ("pairs", "words"),
        [
            ({"interval": 0.5}, "at least 1 second"),
            ({"interval": "x"}, "interval"),
            ({"interval": 60, "cron": "* * * * *"}, "not both"),
            ({"cron": ""}, "interval or cron"),
            ({"cron": "* * * * *", "offset": 5}, "belongs to an interval"),
            ({"timezone": "UTC"}, "belongs to cron"),
            ({"missed": "some"}, "all, last or none, not some"),
            ({"retries": -1}, "retries"),
            ({"priority": "nan"}, "priority"),
            ({"offset": "inf"}, "offset"),
            ({"tags": "{"}, "tags"),
            ({"context": "[]"}, "context"),
            ({"expires": "soon"}, "expires"),
            ({"name": "n" * 256}, "name has 256 bytes"),
            ({"unique": "n" * 256}, "unique has 256"),
            ({"nonsense": 1}, "Unknown option nonsense"),
            ({"queue": "q"}, "Unknown option queue"),
            ({"paused": 1}, "Unknown option paused"),
        ],
    )
    def test_bad_values_are_refused_and_nothing_is_written(
        self, keyed: Keyed, pairs: dict[str, Any], words: str
    ) -> None:
        before = digest(keyed.server)
        given = pairs if {"interval", "cron"} & set(pairs) else {"interval": 60} | pairs
        text = keyed.refusal("schedule.set", "s", "q", "k", "{}", *flat(given))
        assert text.startswith("BADARG")
        assert words in text
        assert digest(keyed.server) == before

    @pytest.mark.parametrize("args", [("x-history", "q", "k", "{}"),
                                      ("s", "q*", "k", "{}"), ("s", "q", "k", "{"),
                                      ("s", "q", "k"), ("s",), ()])  # fmt: skip
    def test_bad_arguments(self, keyed: Keyed, args: tuple[str, ...]) -> None:
        assert keyed.refusal("schedule.set", *args).startswith("BADARG")


class TestSettingAgain:
    def test_who_was_about_to_put_a_tick_does_not_undo_the_change(
        self, keyed: Keyed
    ) -> None:
        make(keyed, now=100, interval=86400)
        make(keyed, now=100, interval=60)
        assert tick(keyed, ("s", 100, 100, "", 86500, ""), now=100) == [0]
        assert taken(keyed, 101) == ["s@100"]
        assert due(keyed) == 160

    def test_a_changed_offset_begins_anew(self, keyed: Keyed) -> None:
        make(keyed, now=100, offset=10)
        make(keyed, now=105, offset=10)
        assert due(keyed) == 110
        make(keyed, now=105, offset=30)
        assert due(keyed) == 135

    def test_a_former_id_goes_on_with_all_that_it_has(self, keyed: Keyed) -> None:
        make(keyed, now=100)
        taken(keyed, 100)
        keyed.call("schedule.pause", "s", now=110)
        assert make(keyed, "new", now=120, formerly=["no", "s"]) == "changed"
        assert listed(keyed) == ["new"]
        after = shown(keyed, "new")
        assert (after["count"], after["last"], after["paused"]) == (1, 100, True)
        keyed.call("schedule.resume", "new", now=120)
        assert due(keyed, "new") == 160

    def test_there_are_at_most_a_thousand_declared_ones(self, keyed: Keyed) -> None:
        for n in range(1000):
            make(keyed, f"s{n}", owner="code")
        text = keyed.refusal(
            "schedule.set", "one", "q", "k", "{}", "interval", 60, "owner", "code"
        )
        assert text.startswith("TOOBIG")
        assert make(keyed, "s7", owner="code") == "changed"
        assert make(keyed, "one") == "new"

    def test_those_that_code_declares(self, keyed: Keyed) -> None:
        make(keyed, "mine")
        make(keyed, owner="code")
        assert keyed.call("schedule.declared") == ["s", "code", "0"]
        keyed.call("schedule.update", "s", "interval", 10)
        assert keyed.call("schedule.declared") == ["s", "code", "1"]
        make(keyed, "new", owner="code", formerly=["s"], edited=1)
        assert keyed.call("schedule.declared") == ["new", "code", "1"]
        make(keyed, "new")
        assert keyed.call("schedule.declared") == []

    def test_a_template_of_an_old_client_is_adopted_in_its_rhythm(
        self, keyed: Keyed
    ) -> None:
        keyed.core.old("recur", 95, "queue", "s", "k", "{}", "interval", 60, 10)
        make(keyed, now=100)
        assert (due(keyed), shown(keyed)["missed"]) == (105, "last")
        assert keyed.core.old("recur.get", 100, "s") is None
        assert keyed.core.popped(105) == []
        assert taken(keyed, 105) == ["s@105"]


class TestUpdating:
    def test_named_values_change_and_others_stay(self, keyed: Keyed) -> None:
        make(keyed, now=100, tags=["a"], unique="u", context={"a": 1}, expires=5)
        keyed.call("schedule.update", "s", "priority", 3, "unique", "", "context", "",
                   "expires", "", "name", "n", "queue", "other", now=110)  # fmt: skip
        after = shown(keyed)
        assert (after["priority"], after["name"], after["queue"]) == (3, "n", "other")
        assert not {"unique", "context", "expires"} & set(after)
        assert (after["tags"], after["next"], after["edited"]) == (["a"], 100, False)

    @pytest.mark.parametrize("paused", [False, True])
    def test_the_kind(self, keyed: Keyed, paused: bool) -> None:
        make(keyed, now=100, offset=2)
        if paused:
            keyed.call("schedule.pause", "s", now=100)
        keyed.call("schedule.update", "s", "cron", "0 0 * * *", now=110)
        after = shown(keyed)
        assert (after["kind"], after["paused"]) == ("cron", paused)
        assert not {"interval", "offset"} & set(after)

    def test_cron_and_zone(self, keyed: Keyed) -> None:
        make(keyed, cron="* * * * *", now=100)
        [(_, score, *_)] = looked(keyed, "w", 100)[2]
        tick(keyed, ("s", score, "", "", 120, ""), now=100)
        assert shown(keyed)["next"] == 120
        keyed.call("schedule.update", "s", "timezone", "Europe/Berlin", now=101)
        assert "next" not in shown(keyed)

    @pytest.mark.parametrize(
        "pairs", [("owner", "x"), ("edited", "1"), ("formerly", "[]"), ("x", "y"),
                  ("retries",), ("cron", "a", "interval", 5), ("retries", "x")]
    )  # fmt: skip
    def test_bad_updates_are_refused(
        self, keyed: Keyed, pairs: tuple[Any, ...]
    ) -> None:
        make(keyed)
        before = digest(keyed.server)
        text = keyed.refusal("schedule.update", "s", *pairs, now=0)
        assert text.startswith("BADARG")
        assert digest(keyed.server) == before

    @pytest.mark.parametrize("command", ["update", "pause", "resume", "run"])
    def test_unknown_schedules(self, keyed: Keyed, command: str) -> None:
        text = keyed.refusal(f"schedule.{command}", "no")
        assert text == f"NOSCHEDULE schedule.{command}(): Schedule no does not exist"

    def test_a_template_of_an_old_client_becomes_a_schedule(self, keyed: Keyed) -> None:
        keyed.core.old("recur", 100, "queue", "s", "k", "{}", "interval", 60, 0)
        assert keyed.core.popped(100) == ["s-1"]
        keyed.call("schedule.update", "s", "priority", 3, now=110)
        after = shown(keyed)
        assert (after["count"], after["next"], after["missed"]) == (1, 160, "all")
        assert keyed.core.old("recur.get", 110, "s") is None

    @pytest.mark.parametrize(("now", "then"), [(110, 160), (160, 220), (500, 520)])
    def test_a_resumed_schedule_keeps_its_rhythm(
        self, keyed: Keyed, now: float, then: float
    ) -> None:
        keyed.call("config.set", "heartbeat", 1000, now=0)
        make(keyed, now=100)
        taken(keyed, 100)
        keyed.call("schedule.pause", "s", now=105)
        assert keyed.call("schedule.resume", "s", now=now) == 1
        assert keyed.call("schedule.resume", "s", now=now) == 0
        assert due(keyed) == then
        assert taken(keyed, now) == []
        assert taken(keyed, then) == [f"s@{then}"]


class TestPausing:
    def test_no_tick_stays_far_ahead_when_the_clock_was_set_back(
        self, keyed: Keyed
    ) -> None:
        make(keyed, now=100_000)
        taken(keyed, 100_000)
        keyed.call("schedule.pause", "s", now=130)
        keyed.call("schedule.resume", "s", now=130)
        assert due(keyed) == 160

    def test_all_or_none(self, keyed: Keyed) -> None:
        make(keyed, "a")
        make(keyed, "b", cron="* * * * *")
        assert keyed.refusal("schedule.pause", "a", "b", "no").startswith("NOSCHEDULE")
        assert not shown(keyed, "a")["paused"]
        assert keyed.call("schedule.pause", "a", "b", "a", now=0) == 2
        assert keyed.call("schedule.resume", "a", "b", "b", now=0) == 2

    def test_a_template_of_an_old_client_can_be_paused(self, keyed: Keyed) -> None:
        keyed.core.old("recur", 100, "queue", "s", "k", "{}", "interval", 60, 0)
        keyed.call("schedule.pause", "s", now=110)
        assert keyed.core.popped(500) == []
        keyed.call("schedule.resume", "s", now=500)
        assert due(keyed) == 520


class TestListing:
    def test_page_by_page(self, keyed: Keyed) -> None:
        make(keyed, "i1", queue="b", offset=5)
        make(keyed, "c1", cron="* * * * *", now=2)
        make(keyed, "i2", queue="a", now=1)
        make(keyed, "p")
        keyed.call("schedule.pause", "p", now=0)
        keyed.core.old("recur", 0, "b", "old1", "k", "{}", "interval", 60, 9)
        keyed.core.old("recur", 0, "a", "old2", "k", "{}", "interval", 60, 10)
        everything = ["i2", "c1", "i1", "p", "old2", "old1"]
        assert listed(keyed) == everything
        assert keyed.json("schedule.list", 0, 0) == {"total": 6, "schedules": {}}
        for offset in range(7):
            for count in range(7):
                assert listed(keyed, offset, count) == everything[offset:][:count]

    def test_of_a_queue(self, keyed: Keyed) -> None:
        for which in ("c", "a", "b"):
            make(keyed, which)
        make(keyed, "elsewhere", queue="other")
        keyed.call("schedule.pause", "b", now=0)
        keyed.core.old("recur", 0, "queue", "old", "k", "{}", "interval", 60, 9)
        everything = ["a", "b", "c", "old"]
        for offset in range(5):
            for count in range(5):
                reply = keyed.json("schedules.in", "queue", offset, count)
                ids = [each["id"] for each in reply["schedules"] or ()]
                assert (reply["total"], ids) == (4, everything[offset:][:count])

    def test_those_that_tick_next(self, keyed: Keyed) -> None:
        make(keyed, "late", offset=50)
        make(keyed, "soon", offset=10)
        make(keyed, "unknown", cron="* * * * *")
        for count in range(4):
            found = keyed.json("schedules.next", count) or ()
            assert [each["id"] for each in found] == ["soon", "late"][:count]

    def test_a_thousand_at_most(self, keyed: Keyed) -> None:
        for n in range(1001):
            make(keyed, f"s{n}", cron="* * * * *")
        reply = keyed.json("schedule.list", 0, 5000)
        assert (reply["total"], len(reply["schedules"])) == (1001, 1000)


class TestRunning:
    @pytest.mark.parametrize("kind", BOTH, ids=["interval", "cron"])
    @pytest.mark.parametrize("paused", [False, True])
    def test_run_puts_one_job_at_once_beside_the_rhythm(
        self, keyed: Keyed, kind: dict[str, Any], paused: bool
    ) -> None:
        make(keyed, now=100, data="[1]", tags=["t"], **kind)
        if paused:
            keyed.call("schedule.pause", "s", now=100)
        before = shown(keyed)
        jid = keyed.call("schedule.run", "s", now=130)
        assert jid.startswith("s@run-")
        job = keyed.job(jid)
        assert (job["state"], job["data"], job["tags"]) == ("waiting", "[1]", ["t"])
        assert job["spawned_from_jid"] == "s"
        assert shown(keyed) == before | {"count": 1}
        assert keyed.call("schedule.run", "s", now=130) != jid

    def test_a_template_of_an_old_client(self, keyed: Keyed) -> None:
        keyed.core.old("recur", 100, "queue", "s", "k", "[1]", "interval", 60, 0)
        jid = keyed.call("schedule.run", "s", now=100)
        assert keyed.job(jid)["data"] == "[1]"
        assert keyed.core.json("recur.get", 100, "s")["count"] == 1


class TestRemoving:
    def test_jobs_stay_and_nothing_else(self, keyed: Keyed) -> None:
        make(keyed, "a")
        serve(keyed, 0)
        make(keyed, "b", cron="* * * * *")
        make(keyed, "c", cron="* * * * *")
        keyed.core.old("recur", 0, "queue", "old", "k", "{}", "interval", 60, 0)
        keyed.call("schedule.pause", "c", now=0)
        assert [job["jid"] for job in keyed.take()] == ["old-1", "a@0"]
        assert keyed.call("schedule.remove", "a", "b", "c", "old", "no", now=0) == 4
        assert listed(keyed) == []
        assert keyed.call("schedules.count", "queue") == [0]
        assert keyed.job("a@0")["state"] == "running"


def test_an_id_has_200_bytes_at_most(keyed: Keyed) -> None:
    """Those of its jobs are longer, and have to be ids as well."""
    assert make(keyed, "x" * 200) == "new"
    assert "at most 200" in keyed.refusal("schedule.set", "x" * 201, "q", "k", "{}")
