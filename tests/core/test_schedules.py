"""Schedules of both kinds: making, changing, pausing, listing, running, removing them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.caller import Core, flat
from tests.core.keyed import Keyed
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
    """Return when a schedule ticks next."""
    score: float | None = shown(keyed, which).get("next")
    return score


def taken(keyed: Keyed, now: float, count: int = 50) -> list[str]:
    return [job["jid"] for job in keyed.take(count, now=now)]


class TestMaking:
    def test_an_interval_schedule_first_ticks_after_its_offset(
        self, keyed: Keyed
    ) -> None:
        assert make(keyed, now=100, offset=7, retries=2) == "new"
        assert due(keyed) == 107
        assert taken(keyed, 106.9) == []
        assert taken(keyed, 107) == ["s-1"]

    def test_an_interval_schedule_is_shown(self, keyed: Keyed) -> None:
        make(keyed, now=100, name="Clock", tags=["t"], priority=1.5, backlog=3,
             owner="code:x", declared="d", missed="all", unique="u", expires=9,
             context={"a": 1}, data="[1]")  # fmt: skip
        assert shown(keyed) == {
            "id": "s", "kind": "interval", "queue": "queue", "klass": "klass",
            "data": "[1]", "priority": 1.5, "retries": 5, "tags": ["t"], "count": 0,
            "interval": 60, "backlog": 3, "missed": "all", "name": "Clock",
            "owner": "code:x", "declared": "d", "unique": "u", "expires": 9,
            "context": '{"a": 1}', "next": 100, "paused": False, "edited": False,
        }  # fmt: skip

    def test_a_cron_schedule_is_shown(self, keyed: Keyed) -> None:
        make(keyed, cron="0 3 * * *", now=100)
        assert shown(keyed) == {
            "id": "s", "kind": "cron", "queue": "queue", "klass": "klass",
            "data": "{}", "priority": 0, "retries": 5, "tags": {}, "count": 0,
            "missed": "last", "cron": "0 3 * * *", "timezone": "UTC",
            "paused": False, "edited": False,
        }  # fmt: skip

    def test_cron_is_never_where_an_old_client_would_spawn_it(
        self, keyed: Keyed
    ) -> None:
        make(keyed, cron="* * * * *")
        assert keyed.core.old("recur.get", 0, "s") is None
        assert keyed.core.pop(1e9) == []

    def test_an_unknown_schedule_is_nothing(self, keyed: Keyed) -> None:
        assert keyed.call("schedule.get", "no") is None

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
        make(keyed, cron="* * * * *", declared="d", owner="code")
        keyed.core.old("recur", 0, "queue", "s", "k", "{}", "interval", 60, 0)
        assert shown(keyed)["kind"] == "interval"
        assert listed(keyed) == ["s"]
        assert keyed.call("schedule.declared") == []

    def test_recur_forgets_what_only_we_know(self, keyed: Keyed) -> None:
        make(keyed, missed="none", name="n")
        keyed.call("schedule.pause", "s", now=0)
        keyed.core.old("recur", 0, "queue", "s", "k", "{}", "interval", 60, 0)
        after = shown(keyed)
        assert not {"name", "owner", "declared"} & set(after)
        assert (after["paused"], after["next"]) == (False, 0)

    @pytest.mark.parametrize(
        ("pairs", "words"),
        [
            ({"interval": 0.5}, "at least 1 second"),
            ({"interval": "x"}, "interval"),
            ({"interval": 60, "cron": "* * * * *"}, "not both"),
            ({"cron": ""}, "interval or cron"),
            ({"cron": "* * * * *", "offset": 5}, "belong to an interval"),
            ({"cron": "* * * * *", "backlog": 5}, "belong to an interval"),
            ({"timezone": "UTC"}, "belongs to cron"),
            ({"missed": "some"}, "all, last or none, not some"),
            ({"retries": -1}, "retries"),
            ({"backlog": -1}, "backlog"),
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

    @pytest.mark.parametrize("args", [("i" * 201, "q", "k", "{}"), ("x-history", "q", "k", "{}"),
                                      ("s", "q*", "k", "{}"), ("s", "q", "k", "{"),
                                      ("s", "q", "k"), ("s",), ()])  # fmt: skip
    def test_bad_arguments(self, keyed: Keyed, args: tuple[str, ...]) -> None:
        assert keyed.refusal("schedule.set", *args).startswith("BADARG")

    def test_without_a_kind(self, keyed: Keyed) -> None:
        assert "interval or cron" in keyed.refusal("schedule.set", "s", "q", "k", "{}")


class TestSettingAgain:
    def test_the_same_interval_keeps_all(self, keyed: Keyed) -> None:
        make(keyed, now=100)
        assert taken(keyed, 100) == ["s-1"]
        assert make(keyed, now=130, data="[2]") == "changed"
        after = shown(keyed)
        assert (after["next"], after["count"], after["last"]) == (160, 1, 100)
        assert after["data"] == "[2]"

    @pytest.mark.parametrize(
        ("interval", "then"),
        [(90, 190), (31, 131), (10, 140), (7, 135), (86400, 86500)],
    )
    def test_a_changed_interval_keeps_the_rhythm(
        self, keyed: Keyed, interval: float, then: float
    ) -> None:
        make(keyed, now=100)
        taken(keyed, 100)
        make(keyed, now=130, interval=interval)
        assert due(keyed) == then

    def test_a_tick_that_is_due_stays_due(self, keyed: Keyed) -> None:
        make(keyed, now=100)
        make(keyed, now=130, interval=3600)
        assert taken(keyed, 130) == ["s-1"]
        assert due(keyed) == 3700

    def test_a_changed_offset_begins_anew(self, keyed: Keyed) -> None:
        make(keyed, now=100, offset=10)
        make(keyed, now=105, offset=10)
        assert due(keyed) == 110
        make(keyed, now=105, offset=30)
        assert due(keyed) == 135

    def test_another_queue(self, keyed: Keyed) -> None:
        make(keyed, now=100, offset=10)
        make(keyed, now=101, offset=10, queue="other")
        assert (shown(keyed)["queue"], due(keyed)) == ("other", 110)
        assert taken(keyed, 110) == []
        assert [job["jid"] for job in keyed.take(queue="other", now=110)] == ["s-1"]

    def test_a_pause_stays(self, keyed: Keyed) -> None:
        make(keyed, now=100)
        keyed.call("schedule.pause", "s", now=110)
        make(keyed, now=120, interval=50)
        assert shown(keyed)["paused"]
        assert (due(keyed), taken(keyed, 1000)) == (None, [])

    def test_a_template_of_an_old_client_is_adopted_in_its_rhythm(
        self, keyed: Keyed
    ) -> None:
        keyed.core.old("recur", 95, "queue", "s", "k", "{}", "interval", 60, 10)
        make(keyed, now=100)
        assert (due(keyed), shown(keyed)["missed"]) == (105, "last")

    def test_the_same_declaration_changes_nothing(self, keyed: Keyed) -> None:
        make(keyed, declared="d1", owner="code")
        before = shown(keyed)
        assert make(keyed, interval=5, declared="d1", owner="code") == "same"
        assert shown(keyed) == before
        assert make(keyed, interval=5, declared="d2", owner="code") == "changed"
        assert keyed.call("schedule.declared") == ["s", "d2", "code", "0"]

    def test_a_schedule_of_another_owner_is_kept(self, keyed: Keyed) -> None:
        make(keyed)
        assert make(keyed, interval=5, owner="code") == "kept"
        make(keyed, "t", owner="code:a")
        assert make(keyed, "t", interval=5, owner="code:b") == "kept"
        assert shown(keyed, "t")["interval"] == 60
        assert make(keyed, "t", interval=5, owner="code:b", force=1) == "changed"
        assert shown(keyed, "t")["owner"] == "code:b"

    def test_an_edited_schedule_is_kept(self, keyed: Keyed) -> None:
        make(keyed, owner="code", declared="d1")
        keyed.call("schedule.update", "s", "interval", 10)
        assert make(keyed, owner="code", declared="d2") == "kept"
        assert keyed.call("schedule.declared") == ["s", "d1", "code", "1"]
        assert make(keyed, owner="code", declared="d2", force=1) == "changed"
        assert keyed.call("schedule.declared") == ["s", "d2", "code", "0"]

    def test_setting_without_an_owner_removes_the_owner(self, keyed: Keyed) -> None:
        make(keyed, owner="code", declared="d1")
        make(keyed)
        assert "owner" not in shown(keyed)
        assert keyed.call("schedule.declared") == []

    def test_there_are_at_most_a_thousand_declared_ones(self, keyed: Keyed) -> None:
        for n in range(1000):
            make(keyed, f"s{n}", declared="d")
        text = keyed.refusal(
            "schedule.set", "one", "q", "k", "{}", "interval", 60, "declared", "d"
        )
        assert text.startswith("TOOBIG")
        assert make(keyed, "s7", declared="d2") == "changed"

    def test_a_count_never_makes_two_jobs_share_an_id(self, keyed: Keyed) -> None:
        make(keyed)
        taken(keyed, 0)
        keyed.call("schedule.remove", "s", now=0)
        make(keyed, now=60)
        assert taken(keyed, 60) == ["s-2"]


class TestUpdating:
    def test_named_values_change_and_others_stay(self, keyed: Keyed) -> None:
        make(keyed, now=100, tags=["a"], unique="u", context={"a": 1}, expires=5)
        keyed.call("schedule.update", "s", "priority", 3, "unique", "", "context", "",
                   "expires", "", "name", "n", "queue", "other", now=110)  # fmt: skip
        after = shown(keyed)
        assert (after["priority"], after["name"], after["queue"]) == (3, "n", "other")
        assert not {"unique", "context", "expires"} & set(after)
        assert (after["tags"], after["next"], after["edited"]) == (["a"], 100, False)

    def test_no_backlog(self, keyed: Keyed) -> None:
        make(keyed, backlog=2)
        keyed.call("schedule.update", "s", "backlog", 0)
        assert shown(keyed)["backlog"] == 0

    def test_updating_a_declared_schedule_marks_it_edited(self, keyed: Keyed) -> None:
        make(keyed, owner="code")
        keyed.call("schedule.update", "s", "retries", 0)
        assert shown(keyed)["edited"]

    def test_an_interval(self, keyed: Keyed) -> None:
        make(keyed, now=100)
        taken(keyed, 100)
        keyed.call("schedule.update", "s", "interval", 90, now=120)
        assert (due(keyed), shown(keyed)["count"]) == (190, 1)

    @pytest.mark.parametrize("paused", [False, True])
    def test_the_kind(self, keyed: Keyed, paused: bool) -> None:
        make(keyed, now=100, backlog=2)
        if paused:
            keyed.call("schedule.pause", "s", now=100)
        keyed.call("schedule.update", "s", "cron", "0 0 * * *", now=110)
        after = shown(keyed)
        assert (after["kind"], after["paused"]) == ("cron", paused)
        assert not {"interval", "backlog"} & set(after)

    def test_cron_and_zone(self, keyed: Keyed) -> None:
        make(keyed, cron="* * * * *", now=100)
        [*_, flat] = keyed.call("schedule.due", "w", 1, now=100)
        keyed.call("schedule.tick", "s", flat[1], "", "", "", 120, now=100)
        assert shown(keyed)["next"] == 120
        keyed.call("schedule.update", "s", "timezone", "Europe/Berlin", now=101)
        assert "next" not in shown(keyed)

    @pytest.mark.parametrize(
        "pairs", [("owner", "x"), ("declared", "x"), ("force", "1"), ("x", "y"),
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

    def test_old_clients_update_a_paused_one(self, keyed: Keyed) -> None:
        make(keyed, now=100)
        keyed.call("schedule.pause", "s", now=110)
        keyed.core.old("recur.update", 115, "s", "interval", 30, "queue", "other")
        assert keyed.violations() == []
        keyed.call("schedule.resume", "s", now=120)
        assert (shown(keyed)["queue"], due(keyed)) == ("other", 130)

    def test_old_clients_remove_a_paused_one(self, keyed: Keyed) -> None:
        make(keyed, now=100, declared="d")
        keyed.call("schedule.pause", "s", now=110)
        keyed.core.old("unrecur", 120, "s")
        assert listed(keyed) == []
        assert keyed.call("schedule.declared") == []


class TestPausing:
    def test_a_paused_one_puts_nothing(self, keyed: Keyed) -> None:
        make(keyed)
        assert keyed.call("schedule.pause", "s", now=0) == 1
        assert keyed.call("schedule.pause", "s", now=0) == 0
        assert taken(keyed, 300) == []
        assert shown(keyed)["paused"]
        assert "next" not in shown(keyed)

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
        assert taken(keyed, then) == ["s-2"]

    def test_all_or_none(self, keyed: Keyed) -> None:
        make(keyed, "a")
        make(keyed, "b", cron="* * * * *")
        assert keyed.refusal("schedule.pause", "a", "b", "no").startswith("NOSCHEDULE")
        assert not shown(keyed, "a")["paused"]
        assert keyed.call("schedule.pause", "a", "b", "a", now=0) == 2
        assert keyed.call("schedule.resume", "a", "b", "b", now=0) == 2

    def test_a_resumed_schedule_wakes_an_idle_worker(self, keyed: Keyed) -> None:
        make(keyed, now=100)
        keyed.call("schedule.pause", "s", now=100)
        _, *names = keyed.settle([], 1, wait=5, now=158).rest
        keyed.call("schedule.resume", "s", now=159)
        assert keyed.is_woken(names)


class TestListing:
    def test_both_kinds_page_by_page(self, keyed: Keyed) -> None:
        make(keyed, "i1", queue="b", offset=5)
        make(keyed, "i2", queue="a")
        make(keyed, "i3", queue="b")
        make(keyed, "c1", cron="* * * * *", now=2)
        make(keyed, "c2", cron="* * * * *", now=1)
        make(keyed, "p")
        keyed.call("schedule.pause", "p", now=0)
        keyed.core.old("recur", 0, "b", "old", "k", "{}", "interval", 60, 9)
        everything = ["c2", "c1", "p", "i2", "i3", "i1", "old"]
        assert listed(keyed) == everything
        assert keyed.json("schedule.list", 0, 0) == {"total": 7, "schedules": {}}
        for offset in range(8):
            for count in range(8):
                assert listed(keyed, offset, count) == everything[offset:][:count]

    def test_a_thousand_at_most(self, keyed: Keyed) -> None:
        for n in range(1001):
            make(keyed, f"s{n}", cron="* * * * *")
        reply = keyed.json("schedule.list", 0, 5000)
        assert (reply["total"], len(reply["schedules"])) == (1001, 1000)

    def test_reading_writes_nothing(self, keyed: Keyed) -> None:
        make(keyed, "a")
        make(keyed, "b", cron="* * * * *", declared="d")
        before = digest(keyed.server)
        for command in ("get a", "list", "declared"):
            keyed.call(*f"schedule.{command}".split(), now=1000)
        assert digest(keyed.server) == before


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

    def test_a_repeat_gives_the_same_job(self, keyed: Keyed) -> None:
        make(keyed)
        jid = keyed.call("schedule.run", "s", now=1, request="c:1")
        assert keyed.call("schedule.run", "s", now=2, request="c:1") == jid
        assert shown(keyed)["count"] == 1


class TestRemoving:
    def test_jobs_stay_and_nothing_else(self, keyed: Keyed) -> None:
        make(keyed, "a", declared="d")
        make(keyed, "b", cron="* * * * *", declared="d")
        make(keyed, "c", cron="* * * * *")
        keyed.call("schedule.pause", "c", now=0)
        assert taken(keyed, 0) == ["a-1"]
        assert keyed.call("schedule.remove", "a", "b", "c", "no", now=0) == 3
        assert listed(keyed) == keyed.call("schedule.declared") == []
        assert keyed.job("a-1")["state"] == "running"


def test_a_sum_of_all_in_a_row(core: Core) -> None:
    """The template of an old client behaves as ever in a namespace with schedules."""
    keyed = Keyed(core)
    make(keyed, "ours")
    core.old("recur", 100.5, "queue", "old", "k", "{}", "interval", 60, 0)
    assert sorted(core.popped(290)) == ["old-1", "old-2", "old-3", "old-4", "ours-1"]
    assert json.loads(core.old("recur.get", 290, "old"))["count"] == 4


def test_an_id_has_200_bytes_at_most(keyed: Keyed) -> None:
    """Those of its jobs are longer, and have to be ids as well."""
    what = ("queue", "k", "{}", "interval", 60)
    keyed.call("schedule.set", "x" * 200, *what, now=1)
    refusal = keyed.refusal("schedule.set", "x" * 201, *what, now=1)
    assert "id has 201 bytes, at most 200" in refusal
