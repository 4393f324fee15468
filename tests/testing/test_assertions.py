"""Assertions on enqueued jobs: captured, on the server, or run already."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from unittest.mock import ANY

import pytest
from django.utils import timezone

from django_qless.conf.connections import connections
from django_qless.core import Settlement
from django_qless.testing import (
    assert_enqueued,
    assert_enqueued_count,
    assert_not_enqueued,
    captured_jobs,
    enqueued_jobs,
    inline_jobs,
    run_jobs,
)
from tests.jobs_app.jobs import add, send_welcome
from tests.jobs_app.models import Feed
from tests.testing.jobs import Steps, hopeless, note


def test_by_name_arguments_and_options() -> None:
    first = note.delay("x")
    handle = send_welcome.using(
        delay=dt.timedelta(minutes=1), priority=3, after=[first], tags=["a", "b"]
    ).delay(5, template="vip")
    job = assert_enqueued(send_welcome)
    assert job.handle is handle
    assert_enqueued("tests.jobs_app.jobs.send_welcome", 5, template="vip")
    assert_enqueued(send_welcome, user=5, template="vip")  # another way to say it
    assert_enqueued(send_welcome, ANY, template=ANY, times=1)
    assert_enqueued(send_welcome.args(5, template="vip"), queue="mail")
    assert_enqueued(send_welcome, delay=60, priority=3, tags=["a"], after=first)
    assert_enqueued(send_welcome, delay=dt.timedelta(seconds=60), after=[first.jid])
    assert_enqueued(send_welcome, run_at=timezone.now() + dt.timedelta(minutes=1))
    assert_enqueued(note, "x", alias="default", delay=0, run_at=None)
    for wrong in (
        {"queue": "bulk"},
        {"delay": 61},
        {"priority": 4},
        {"tags": ["c"]},
        {"after": []},
        {"alias": "other"},
        {"run_at": timezone.now()},
        {"template": "vip", "user": 6},
    ):
        assert_not_enqueued(send_welcome, **wrong)
        with pytest.raises(AssertionError, match=r"send_welcome.* was not enqueued"):
            assert_enqueued(send_welcome, **wrong)


def test_defaults_are_arguments_as_well() -> None:
    add.delay(1)
    assert_enqueued(add, 1, 0, factor=1)
    assert_enqueued(add, 1)
    assert_not_enqueued(add, 1, 2)
    assert_not_enqueued(add.args(2))
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        assert_enqueued(add, b=3)
    with pytest.raises(TypeError, match="both"):
        assert_enqueued(add.args(1), 1)


def test_arguments_are_compared_as_they_arrive() -> None:
    day = dt.date(2030, 1, 31)
    note.delay((1, day), mark="x")
    assert_enqueued(note, (1, day), mark="x")
    assert_enqueued(note, [1, day], mark="x")
    assert_enqueued(note, [ANY, day], mark="x")
    assert_not_enqueued(note, [1, "2030-01-31"], mark="x")


def test_a_name_that_is_an_option_goes_into_args() -> None:
    note.delay("x")
    assert_enqueued(note.args("x"), queue="notes")
    assert_not_enqueued(note.args("x", mark="y"), queue="notes")


@pytest.mark.django_db
def test_methods_of_rows() -> None:
    mine, other = Feed.objects.create(title="a"), Feed.objects.create(title="b")
    mine.rename.delay("new")
    mine.merge.delay(other)
    assert_enqueued(mine.rename, "new")
    assert_enqueued(Feed.rename, "new")
    assert_not_enqueued(other.rename)
    assert_enqueued(mine.merge, other)
    assert_not_enqueued(mine.merge, mine)
    Feed.check_all.delay()
    assert_enqueued(Feed.check_all)


@pytest.mark.django_db
def test_a_row_that_is_gone_is_still_the_argument() -> None:
    mine, other = Feed.objects.create(title="a"), Feed.objects.create(title="b")
    note.delay([other, dt.date(2030, 1, 31)])
    Feed.objects.filter(pk=other.pk).delete()
    assert_enqueued(note, [other, dt.date(2030, 1, 31)])
    assert_not_enqueued(note, [mine, dt.date(2030, 1, 31)])


def test_class_jobs() -> None:
    Steps.delay({"n": 1})
    assert_enqueued(Steps, {"n": 1})
    assert_enqueued(Steps, n=1)
    assert_not_enqueued(Steps, {"n": 2})


def test_what_is_no_job() -> None:
    for each in (print, 5, Feed):
        with pytest.raises(TypeError, match="is no job: give a function"):
            assert_enqueued(each)


def test_messages_list_what_was_enqueued_instead() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(note, "x", queue="notes")
    assert str(caught.value) == (
        "tests.testing.jobs.note('x') with queue='notes' was not enqueued. "
        "Nothing was enqueued."
    )
    note.delay("y")
    note.using(delay=5).delay("z")
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(note, "x")
    assert str(caught.value) == (
        "tests.testing.jobs.note('x') was not enqueued. Enqueued:\n"
        "    <tests.testing.jobs.note('y') in 'notes'>\n"
        "    <tests.testing.jobs.note('z') in 'notes', delay=5>"
    )
    with pytest.raises(
        AssertionError, match=r"^tests.testing.jobs.note was enqueued t"
    ):
        assert_not_enqueued(note)
    with pytest.raises(AssertionError, match="was enqueued twice, not 3"):
        assert_enqueued(note, times=3)
    with pytest.raises(AssertionError, match="2 jobs were enqueued, not 0"):
        assert_not_enqueued()
    note.using(queue="x").delay(0)
    with pytest.raises(AssertionError, match=r"1 job was enqueued in 'x', not 0"):
        assert_enqueued_count(0, queue="x")
    with pytest.raises(ValueError, match="assert_not_enqueued"):
        assert_enqueued(note, times=0)


class Vague:
    """As arrays do, it raises where it is asked whether it equals something."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "vague"


def test_messages_about_arguments_of_all_kinds() -> None:
    note.delay("x")
    for call, words in (
        ((note.args("y", mark="m"),), "jobs.note('y', mark='m') was not"),
        ((note, Vague()), "jobs.note(vague) was not"),
        ((note, Decimal("sNaN")), "jobs.note(Decimal('sNaN')) was not"),
    ):
        with pytest.raises(AssertionError, match=re.escape(words)):
            assert_enqueued(*call)


def test_jobs_of_other_programs() -> None:
    client = connections["default"]
    client.put("", "notes", "a", "no.such.job", '{"args": [1], "kwargs": {"b": 2}}')
    client.put("", "notes", "b", "no.such.job", "[1, 2]")
    client.put("", "notes", "c", "no.such.job", "1" * 5000)
    wrong = note.args("x").data.replace('["x"]', '["x", "y"]')
    client.put("", "notes", "d", note.name, wrong)
    strange = note.args("x").data.replace('"x"', '{"$nonsense": 1}')
    client.put("", "notes", "e", note.name, strange)
    assert {job.jid: repr(job) for job in enqueued_jobs()} == {
        "a": "<no.such.job(1, b=2) in 'notes'>",
        "b": "<no.such.job with [1, 2] in 'notes'>",
        "c": f"<no.such.job with {'1' * 200}… in 'notes'>",
        "d": "<tests.testing.jobs.note('x', 'y') in 'notes'>",
        "e": "<tests.testing.jobs.note({'$nonsense': 1}) in 'notes'>",
    }
    assert_not_enqueued(note, "x")
    assert_enqueued("no.such.job", 1, b=2)
    assert_not_enqueued("no.such.job", 1, b=3)


def test_very_many_are_not_all_listed() -> None:
    note.enqueue_many([note.args("x" * 1000) for _ in range(30)])
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(add)
    assert "… and 10 more" in str(caught.value)
    assert len(str(caught.value)) < 10_000


def test_they_count_what_ran_inline_or_later_as_well() -> None:
    with inline_jobs():
        note.delay("inline")
    note.delay("later")
    run_jobs()
    assert_enqueued(note, "inline", times=1)
    assert_enqueued(note, "later", times=1)
    with captured_jobs():
        note.delay("captured")
        assert_enqueued_count(1)
    # After the block it counts with all others of this test.
    assert_enqueued(note, "captured")
    assert_enqueued_count(3)


def test_what_was_refused_was_not_enqueued() -> None:
    note.using(jid="x").delay("first")
    with pytest.raises(Exception, match="no-such"):
        note.using(after=["no-such"]).delay("second")
    assert_enqueued_count(1)


def test_inline_a_job_that_fails_was_enqueued() -> None:
    with inline_jobs(), pytest.raises(LookupError):
        hopeless.delay()
    assert_enqueued(hopeless, times=1)


def test_what_others_have_enqueued_on_the_server_counts_as_well() -> None:
    client = connections["default"]
    for n, state in enumerate(("waiting", "scheduled", "depends", "done", "failed")):
        data = note.args(state).data
        depends = ["waiting"] if state == "depends" else []
        delay = 60 if state == "scheduled" else 0
        client.put("", f"q{n}", state, note.name, data, delay, depends=depends)
    [done] = client.settle("w", [], 1, ["q3"]).jobs
    client.settle("w", [Settlement("done", done.token, "complete")], 0, [])
    [failed] = client.settle("w", [], 1, ["q4"]).jobs
    client.fail("failed", failed.token, "group", "message")
    note.delay("own")
    assert [job.args[0] for job in enqueued_jobs()] == [
        *("own", "waiting", "scheduled", "depends", "done", "failed")
    ]
    assert_enqueued(note, "done", queue="q3")
    assert_enqueued(note, "depends", after=["waiting"])
    assert enqueued_jobs()[-1].handle.state == "failed"


def test_a_job_for_which_an_earlier_one_stands_is_not_enqueued() -> None:
    once = note.using(unique="one")
    first, second = once.delay("first"), once.delay("second")
    assert (second.created, second.jid) == (False, first.jid)
    assert [job.args[0] for job in enqueued_jobs()] == ["first"]
    once.using(on_conflict="replace").delay("third")
    assert [job.args[0] for job in enqueued_jobs()] == ["third"]
