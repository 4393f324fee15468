"""`manage.py qless_recurring`, and the same in Python: `django_qless.recurring`."""

from __future__ import annotations

import json
import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from django_qless import recurring
from django_qless.conf.connections import connections
from django_qless.core import Tick
from django_qless.core.exceptions import ScheduleNotFound
from django_qless.exceptions import InvalidOption
from django_qless.schedules.declared import sync_schedules
from tests.jobs_app import jobs
from tests.schedules.declaring import declaring

ECHO = "tests.jobs_app.jobs.echo"
WHO = "tests.jobs_app.jobs.whoami"
ADD = "tests.jobs_app.jobs.add:recur"


@pytest.fixture
def declare(qless):
    with declaring() as declare:
        yield declare


def told(*words: str) -> str:
    out = StringIO()
    call_command("qless_recurring", *words, stdout=out)
    return out.getvalue()


def cells(text: str, name: str) -> list[str]:
    """Return the cells of a line of a table."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_list(declare, work, settings) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    assert told("list") == "no recurring jobs\n"
    declare(ECHO, every=600)
    declare(WHO, cron="0 6 * * mon-fri", timezone="Europe/Berlin")
    assert cells(told("list"), ECHO) == [ECHO, "code", "not applied"]
    sync_schedules()
    jobs.add.recur(1, every=3600)
    work()
    recurring[ADD].pause()
    recurring[ECHO].update(every=1200)
    text = told("list")
    head, *_ = text.splitlines()
    assert head.split() == "name when next last jobs owner state".split()
    echo = cells(text, ECHO)
    assert echo[:2] == [ECHO, "every 20 minutes"]
    assert echo[-3:] == ["1", "code", "active, edited"]
    # Times are in the project's time zone.
    offset = recurring[ECHO].next.timestamp() + 9 * 3600
    assert echo[2].endswith(f"{int(offset) % 3600 // 60:02}:{int(offset) % 60:02}")
    assert cells(text, WHO)[:2] == [
        WHO,
        "at 06:00, Monday through Friday, Europe/Berlin",
    ]
    assert cells(text, ADD)[-2:] == ["hand", "paused"]


def test_the_list_as_json(declare) -> None:
    declare(WHO, cron="0 6 * * *", timezone="Europe/Berlin", missed="all")
    sync_schedules()
    (data,) = json.loads(told("list", "--json"))
    assert data == {
        "name": WHO,
        "job": WHO,
        "queue": "default",
        "when": "at 06:00, Europe/Berlin",
        "every": None,
        "cron": "0 6 * * *",
        "timezone": "Europe/Berlin",
        "missed": "all",
        "next": None,
        "last": None,
        "count": 0,
        "owner": "code",
        "paused": False,
        "edited": False,
        "trouble": None,
    }


def test_what_is_broken_says_why(qless, declare) -> None:
    qless.schedule_set("broken", "q", "k", "{}", cron="0 0 30 2 *")
    (due,) = qless.schedule_due("w").schedules
    qless.schedule_tick([Tick(due.id, due.score, trouble="it never fires")])
    text = told("list")
    assert cells(text, "broken")[-1] == "broken"
    assert "broken: it never fires" in text


def test_sync(declare) -> None:
    declare(ECHO, every=60)
    declare(WHO, every=60)
    assert sorted(told("sync").splitlines()) == [f"added: {ECHO}", f"added: {WHO}"]
    assert told("sync") == "nothing to do: the server has what the code declares\n"
    recurring[WHO].update(every=5)
    declare(ECHO, every=90)
    assert told("sync").splitlines() == [
        f"changed: {ECHO}",
        f"kept as an operator changed it (see reset): {WHO}",
    ]
    data = json.loads(told("sync", "--json"))
    assert data == {
        "added": [],
        "changed": [],
        "removed": [],
        "kept": [WHO],
        "by_hand": [],
        "failed": {},
        "others": {},
    }


def test_sync_removes_what_is_gone(qless) -> None:
    with declaring() as declare:
        declare(ECHO, every=60)
        told("sync")
    assert told("sync") == f"removed: {ECHO}\n"


def test_run_pause_resume_remove_reset(declare, work) -> None:
    declare(ECHO, every=3600)
    told("sync")
    work()
    handle = recurring[ECHO]
    text = told("run", ECHO)
    assert text.startswith(f"run: {ECHO} as {ECHO}@")
    assert work() == 1
    assert told("pause", ECHO) == f"pause: {ECHO}\n"
    paused = handle.refresh()
    assert (paused.paused, paused.next, paused.state) == (True, None, "paused")
    # Also while it is paused.
    (ran,) = json.loads(told("run", ECHO, "--json"))
    assert (ran["name"], ran["done"]) == (ECHO, "run")
    assert connections["default"].get(ran["jid"]).state == "waiting"
    told("resume", ECHO)
    assert handle.refresh().next is not None
    told("remove", ECHO)
    assert recurring.get(ECHO) is None
    assert cells(told("list"), ECHO)[-1] == "not applied"
    told("reset", ECHO)
    assert handle.refresh().state == "active"


def test_several_at_once_and_none_if_one_is_unknown(declare) -> None:
    jobs.add.recur(1, every=60)
    for word in ("run", "pause", "resume", "remove"):
        with pytest.raises(CommandError, match="no recurring job 'nobody'"):
            told(word, ADD, "nobody")
    assert recurring[ADD].state == "active"
    with pytest.raises(CommandError, match="declares no recurring job"):
        told("reset", ADD)
    declare(ECHO, every=60)
    told("sync")
    told("pause", ADD, ECHO)
    assert [handle.paused for handle in recurring] == [True, True]


def test_another_alias(declare) -> None:
    declare(ECHO, every=60, alias="other")
    assert told("sync") == "nothing to do: the server has what the code declares\n"
    assert told("sync", "--alias", "other") == f"added: {ECHO}\n"
    assert told("list") == "no recurring jobs\n"
    assert ECHO in told("list", "--alias", "other")
    with pytest.raises(CommandError, match="no alias 'third'"):
        told("list", "--alias", "third")


# In Python.


def test_the_view_reads_many(qless) -> None:
    for number in range(30):
        jobs.add.recur(number, every=3600, key=str(number))
    assert len(list(recurring)) == 30
    page = recurring.list()
    assert (len(page.handles), page.total, page.following) == (25, 30, 25)
    rest = recurring.list(offset=page.following)
    assert (len(rest.handles), rest.following) == (5, None)
    assert {handle.id for handle in (*page.handles, *rest.handles)} == {
        handle.id for handle in recurring
    }
    assert f"tests.jobs_app.jobs.add:{7}" in recurring


def test_handles_are_equal_by_what_they_name(qless) -> None:
    handle = jobs.add.recur(1, every=3600)
    assert handle == recurring[ADD] == recurring.get(ADD)
    assert len({handle, recurring[ADD]}) == 1
    assert handle != recurring.using_alias("other").handle(ADD)
    assert handle != ADD
    assert repr(recurring[ADD]) == f"<RecurringHandle {ADD} every hour, active>"


def test_updates(qless) -> None:
    handle = jobs.add.recur(1, every=3600)
    handle.update(every=60, queue="q", priority=2, retries=9, tags=["a"], missed="all")
    now = handle.refresh()
    assert (now.every, now.queue, now.priority, now.retries) == (60, "q", 2, 9)
    assert (now.tags, now.missed, now.edited) == (["a"], "all", False)
    handle.update(cron="0 6 * * *", timezone="Europe/Berlin")
    assert handle.refresh().words == "at 06:00, Europe/Berlin"
    handle.update(timezone="Asia/Tokyo")
    assert handle.refresh().words == "at 06:00, Asia/Tokyo"
    handle.update(cron="0 7 * * *")
    assert handle.refresh().words == "at 07:00, Asia/Tokyo"
    handle.update(missed="none")
    assert (handle.refresh().missed, handle.refresh().cron) == ("none", "0 7 * * *")
    handle.update(every=30)
    assert (handle.refresh().words, handle.refresh().missed) == (
        "every 30 seconds",
        "none",
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "nothing is given"),
        ({"klass": "x"}, "no 'klass' to be changed: possible are every, cron"),
        ({"every": 0}, "at least a second"),
        ({"every": 5, "cron": "@daily"}, "two schedules"),
        ({"cron": "0 0 30 2 *"}, "bad day-of-month"),
        ({"timezone": "Europe/Berlin"}, "timezone= goes with cron= only"),
        ({"queue": "a*"}, "name of one queue"),
        ({"priority": "high"}, "priority must be a whole number"),
    ],
)
def test_updates_that_are_refused(qless, changes, words) -> None:
    handle = jobs.add.recur(1, every=3600)
    before = handle.refresh()
    with pytest.raises(InvalidOption, match=words):
        handle.update(**changes)
    assert handle.refresh()._found == before._found


def test_what_is_not_there(qless) -> None:
    handle = recurring.handle("nobody")
    for act in (handle.refresh, handle.pause, handle.resume, handle.run):
        with pytest.raises(ScheduleNotFound):
            act()
    with pytest.raises(ScheduleNotFound):
        handle.update(every=5)
    handle.remove()


def test_what_could_not_be_applied_is_told(declare, qless) -> None:
    """The others are."""
    declare(ECHO, every=600)
    declare(WHO, every=600)
    qless.redis.set(f"ql:r:{WHO}", "no schedule")
    with pytest.raises(CommandError, match=f"^not applied: {re.escape(WHO)}: WRONG"):
        told("sync")
    assert recurring[ECHO].every == 600
