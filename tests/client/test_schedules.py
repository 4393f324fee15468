"""Schedules through the client: values go in and come out as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.core import DueSchedule, Schedule, Tick
from tests.client.conftest import NOW
from tests.client.jobs import Clock

if TYPE_CHECKING:
    from django_qless.core import Client

MINUTELY = "* * * * *"


def test_an_interval(client: Client, at: Clock) -> None:
    at(0)
    made = client.schedule_set(
        *("s", "mail", "app.send", '{"a":[]}'),
        every=90.5,
        offset=4,
        missed="all",
        priority=2,
        retries=0,
        tags=["t"],
        context='{"c":1}',
        unique="key",
        expires=60,
        name="Näme",
        owner="code:x",
        edited=True,
    )
    assert made == "new"
    assert client.schedule_get("s") == Schedule(
        id="s",
        kind="interval",
        queue="mail",
        klass="app.send",
        data='{"a":[]}',
        priority=2,
        retries=0,
        tags=("t",),
        count=0,
        missed="all",
        next=NOW + 4,
        edited=True,
        name="Näme",
        owner="code:x",
        context='{"c":1}',
        unique="key",
        expires=60,
        every=90.5,
        offset=4,
    )
    assert client.schedule_get("d") is None


def test_cron_from_its_making_to_its_job(client: Client, at: Clock) -> None:
    at(0.5)
    assert client.schedule_set("s", "q", "k", "[1]", cron=MINUTELY) == "new"
    answer = client.schedule_due("w")
    assert (answer.now, answer.leads) == (NOW + 0.5, True)
    assert answer.schedules == [
        DueSchedule("s", str(NOW + 0.5), NOW + 0.5, "", MINUTELY, "UTC", "last")
    ]
    tick = int(NOW) + 40
    told = Tick("s", answer.schedules[0].score, next=tick)
    assert client.schedule_tick([told]) == [False]
    assert client.schedule_due("w").seconds == 3
    assert not client.schedule_due("other").leads
    at(40)
    [due] = client.schedule_due("w").schedules
    assert (due.score, due.since) == (str(tick), None)
    told = Tick("s", due.score, tick, tick + 30, tick + 60)
    assert client.schedule_tick([told, told]) == [True, False]
    [job] = client.pop("q", "w")
    assert (job.jid, job.data, job.spawned_from) == (f"s@{tick}", "[1]", "s")
    schedule = client.schedule_get("s")
    assert schedule is not None
    assert (schedule.last, schedule.next, schedule.count) == (tick, tick + 60, 1)


def test_trouble_is_cut_to_what_can_be_kept(client: Client, at: Clock) -> None:
    at(0)
    client.schedule_set("s", "q", "k", "[1]", cron=MINUTELY)
    [due] = client.schedule_due("w").schedules
    trouble = "!" + "ü" * 5000 + "\udce9"
    assert client.schedule_tick([Tick("s", due.score, trouble=trouble)]) == [False]
    schedule = client.schedule_get("s")
    assert schedule is not None
    assert schedule.trouble
    assert set(schedule.trouble) == {"!", "ü"}
    assert schedule.next is None


def test_pausing_running_removing(client: Client, at: Clock) -> None:
    at(0)
    client.schedule_set("a", "q", "k", "[1]", every=60)
    client.schedule_set("b", "q", "k", "[1]", cron=MINUTELY)
    assert client.schedule_pause("a") == 1
    assert client.schedule_pause(["a", "b"]) == 1
    assert client.schedule_resume(["a", "b"]) == 2
    jid = client.schedule_run("b")
    assert client.get(jid) is not None
    client.schedule_update("a", every=30, name="n", expires=5, unique="u")
    client.schedule_update("a", name="", expires=0, unique="")
    total, schedules = client.schedule_list()
    assert total == 2
    assert [schedule.id for schedule in schedules] == ["b", "a"]
    assert (schedules[1].every, schedules[1].name) == (30, "")
    assert (schedules[1].expires, schedules[1].unique) == (None, None)
    assert client.schedule_list(1).schedules == schedules[1:]
    assert client.schedule_remove(["a", "b", "c"]) == 2
    assert client.schedule_list() == (0, [])


def test_a_template_of_recur_is_shown_as_well(client: Client, at: Clock) -> None:
    at(0)
    client.recur("q", "tick", "k", "{}", 60, backlog=2)
    schedule = client.schedule_get("tick")
    assert schedule is not None
    assert (schedule.kind, schedule.every) == ("interval", 60)
    assert (schedule.next, schedule.missed, schedule.tags) == (NOW, "last", ())
