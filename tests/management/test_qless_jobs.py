"""`manage.py qless_jobs`."""

from __future__ import annotations

import json
import re
from datetime import datetime

import pytest
from django.core.management import CommandError

from django_qless import jobs, queues
from tests.jobs_app import policies, secret
from tests.jobs_app.jobs import add, failing
from tests.management.commands import data, run


def test_list(qless) -> None:
    assert "no jobs" in run("qless_jobs", "list")
    add.using(queue="mail", jid="one", tags=["größe"]).delay(1)
    add.using(queue="bulk", jid="two").delay(1)
    assert "one" in run("qless_jobs", "list", "--queue", "mail")
    assert "two" not in run("qless_jobs", "list", "--queue", "mail")
    text = run("qless_jobs", "list", "--count", "1")
    assert "examined 1 of 2; continue with --offset 1" in text
    page = run("qless_jobs", "list", "--tag", "größe", "--json")
    assert '"tags": ["größe"]' in page
    assert [job["jid"] for job in json.loads(page)["jobs"]] == ["one"]


def test_show(qless, work) -> None:
    handle = add.using(tags=["t"]).delay(20, 1)
    work()
    text = run("qless_jobs", "show", handle.jid)
    assert "complete" in text
    assert '"args":[20,1]' in text
    assert "result:       21" in text
    assert data("qless_jobs", "show", handle.jid)["result"] == 21
    handle = add.delay("ä", "b")
    broken = failing.delay("broken", "the text")
    work()
    assert 'result:       "äb"' in run("qless_jobs", "show", handle.jid)
    text = run("qless_jobs", "show", broken.jid)
    assert "failed in 'broken'" in text
    assert "  the text" in text
    with pytest.raises(CommandError, match="There is no job 'nobody'"):
        run("qless_jobs", "show", "nobody")


def test_a_sensitive_result_is_hidden(qless, work) -> None:
    handle = secret.charge.delay(5, card="4711")
    assert data("qless_jobs", "show", handle.jid)["result"] is None
    work()
    assert data("qless_jobs", "show", handle.jid)["result"] == "[hidden]"
    assert "4711" not in run("qless_jobs", "show", handle.jid)


def test_retries_left_are_those_of_a_job_that_is_not_complete(qless) -> None:
    handle = add.using(retries=2, queue="mail").delay(20, 1)
    qless.pop("mail", "w", 1)[0].retry()
    assert "retries left: 1 of 2" in run("qless_jobs", "show", handle.jid)
    qless.pop("mail", "w", 1)[0].complete()
    text = run("qless_jobs", "show", handle.jid)
    assert "state:        complete" in text
    assert "retries left" not in text


def test_show_has_the_attempts(qless, work) -> None:
    handle = policies.retries_some.delay("Flaky")
    work()
    [first, second, third] = [
        line
        for line in run("qless_jobs", "show", handle.jid)
        .partition("attempts:\n")[2]
        .splitlines()
        if "  waited " in line
    ]
    assert first.startswith("  1  ")
    for line, end in ((first, "retried"), (second, "retried"), (third, "failed")):
        assert re.search(rf"  waited \S+ m?s  ran \S+ m?s  {end}  .*Flaky: again", line)


def test_show_has_the_history_with_what_else_each_entry_says(qless) -> None:
    qless.put("", "mail", "one", "klass", "{}")
    [job] = qless.pop("mail", "w", 1)
    job.fail("broken", "why")
    history = run("qless_jobs", "show", "one").partition("history:\n")[2].splitlines()
    rest = [line.split("  ", 3)[2:] for line in history[:3]]
    assert rest == [
        ["put", "q=mail"],
        ["popped", "worker=w"],
        ["failed", "group=broken  worker=w  message=why"],
    ]


def test_what_was_canceled_is_listed_and_shown(qless) -> None:
    first = add.using(queue="mail", delay=60).delay(20, 1)
    second = add.using(queue="mail", after=[first], on_failure="cancel").delay(2)
    kept = add.using(queue="mail").delay(3)
    first.cancel()
    page = data("qless_jobs", "list", "--state", "canceled", "--queue", "mail")
    assert {job["jid"] for job in page["jobs"]} == {second.jid, first.jid}
    assert [job["state"] for job in page["jobs"]] == ["canceled"] * 2
    text = run("qless_jobs", "list")
    assert kept.jid in text and first.jid not in text
    text = run("qless_jobs", "show", first.jid)
    assert '"args":[20,1]' in text and "when it was scheduled\n" in text
    text = run("qless_jobs", "show", second.jid)
    assert f"when it was depends, because of dependency {first.jid}" in text
    shown = data("qless_jobs", "show", second.jid)["canceled"]
    assert (shown["was"], shown["by"]) == ("depends", first.jid)
    assert data("qless_jobs", "show", kept.jid)["canceled"] is None
    for word in ("cancel", "retry"):
        with pytest.raises(CommandError, match="invalid choice: 'canceled'"):
            run("qless_jobs", word, "--state", "canceled", "--no-input")


def test_of_what_is_long_the_size_is_shown(qless) -> None:
    handle = add.delay("x" * 20_000)
    handle.cancel()
    assert "bytes, not kept" in run("qless_jobs", "show", handle.jid)


def test_retry_one_or_a_group(qless, work, people) -> None:
    handles = failing.enqueue_many([failing.args("broken", "x") for _ in range(3)])
    work()
    text = run("qless_jobs", "retry", handles[0].jid, "nobody")
    assert text == "retried: 1 job\nnot retried: Job nobody does not exist\n"
    people.append("y")
    assert "2 jobs" in run("qless_jobs", "retry", "--group", "broken")
    assert qless.failed() == {}


def test_cancel_asks_before_many(qless, people) -> None:
    add.enqueue_many([add.args(1) for _ in range(3)])
    people.append("")
    with pytest.raises(CommandError, match="Nothing was changed"):
        run("qless_jobs", "cancel", "--queue", "default")
    assert queues["default"].length() == 3
    text = run("qless_jobs", "cancel", "--queue", "default", "--no-input")
    assert "canceled: 3 jobs" in text
    assert queues["default"].length() == 0


def test_where_nobody_can_be_asked_nothing_is_done(qless, monkeypatch) -> None:
    def nobody(question: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", nobody)
    waiting = add.delay(1)
    with pytest.raises(CommandError, match=r"standard input is closed.* --no-input"):
        run("qless_jobs", "cancel", "--queue", "default")
    assert waiting.refresh().state == "waiting"


def test_nothing_is_asked_about_no_jobs(qless, monkeypatch) -> None:
    def never(question: str) -> str:
        raise AssertionError(question)

    monkeypatch.setattr("builtins.input", never)
    for line in (
        ("qless_jobs", "retry", "--group", "broken"),
        ("qless_jobs", "cancel", "--queue", "default"),
        ("qless_queue", "empty", "mail", "--state", "waiting"),
    ):
        assert "no jobs match: nothing to do" in run(*line)


def test_cancel_says_how_many_there_were(qless, work) -> None:
    done = add.delay(1)
    work()
    waiting = add.delay(2)
    text = run("qless_jobs", "cancel", done.jid, "nobody", waiting.jid)
    assert "canceled: 1 job\nnot canceled: " in text
    assert "nobody" in text and done.jid in text
    assert done.refresh().state == "complete"
    assert jobs[waiting.jid].state == "canceled"
    text = run("qless_jobs", "cancel", "nobody")
    assert "canceled: 0 jobs\nnot canceled: " in text and "nobody" in text


def test_which_jobs_must_be_said_once(qless) -> None:
    for arguments in ((), ("a-jid", "--tag", "t")):
        with pytest.raises(CommandError, match="either the ids of jobs, or"):
            run("qless_jobs", "cancel", *arguments)


def test_move(qless) -> None:
    handle = add.delay(1)
    run("qless_jobs", "move", "bulk", handle.jid, "--delay", "60")
    assert (handle.refresh().queue, handle.refresh().state) == ("bulk", "scheduled")


def test_a_result_that_no_key_opens_is_shown_as_it_is(qless) -> None:
    handle = add.using(queue="mail").delay(1)
    [job] = qless.pop("mail", "w", 1)
    job.complete(result='"qless:fernet:abc"', result_ttl=60)
    assert 'result:       "qless:fernet:abc"' in run("qless_jobs", "show", handle.jid)
    assert data("qless_jobs", "show", handle.jid)["result"] == "qless:fernet:abc"


@pytest.mark.parametrize("until", ["1700000060.125", "1700000060"])
def test_when_a_job_is_ready_again_is_a_time(qless, until) -> None:
    """A whole second has no point in the record."""
    handle = add.delay(1)
    entry = f'[1700000000,"retried",{{"worker":"w","until":{until}}}]'
    qless.redis.rpush(f"ql:j:{handle.jid}-history", entry)
    history = run("qless_jobs", "show", handle.jid).partition("history:\n")[2]
    times = re.search(r"  (\S+ \S+)  retried  until=(\S+ \S+)  worker=w", history)
    assert times, history
    began, ready = map(datetime.fromisoformat, times.groups())
    assert (ready - began).seconds == 60
