"""`manage.py qless_queue`."""

from __future__ import annotations

import getpass

import pytest
from django.core.management import CommandError

from django_qless import queues
from django_qless.management.output import REFUSALS
from tests.jobs_app.jobs import add
from tests.management.commands import data, run


def test_list_and_limits(qless) -> None:
    add.using(queue="mail").delay(1)
    run("qless_queue", "limit", "mail", "--max-concurrency", "4", "--weight", "0.5")
    text = run("qless_queue", "list")
    assert "mail" in text
    assert "None" not in text
    (mail,) = data("qless_queue", "list")
    assert (mail["waiting"], mail["max_concurrency"], mail["weight"]) == (
        *(1, "4", "0.5"),
    )
    with pytest.raises(CommandError, match="at least one of"):
        run("qless_queue", "limit", "mail")
    for text in ("-1", "nan", "much"):
        with pytest.raises(CommandError, match="is not a weight: give a number from 0"):
            run("qless_queue", "limit", "mail", f"--weight={text}")
    for rate in ("5/10s", "0"):
        run("qless_queue", "limit", "mail", "--rate", rate)
        assert qless.config_get("mail-rate") == rate
    with pytest.raises(CommandError, match="must be starts and a window"):
        run("qless_queue", "limit", "mail", "--rate", "fast")


def test_pause_and_resume(qless) -> None:
    run("qless_queue", "pause", "mail", "bulk")
    assert queues["mail"].counts().paused
    run("qless_queue", "resume", "mail", "bulk")
    assert not queues["bulk"].counts().paused
    run("qless_queue", "pause", "mail")
    run("qless_queue", "unpause", "mail")
    assert not queues["mail"].counts().paused


def test_changes_say_as_json_what_they_have_done(qless) -> None:
    jid = add.using(queue="mail").delay(1).jid
    add.using(queue="bulk", after=[jid]).delay(1)
    done = data("qless_queue", "pause", "mail", "bulk")
    assert done == {"text": "paused: mail, bulk"}
    left = data("qless_queue", "empty", "mail", "--state", "waiting", "--no-input")
    assert left["text"].splitlines()[:1] == ["canceled: 0 jobs"]
    assert f"not canceled: {jid} is a dependency of" in left["text"]


def test_a_pause_says_why_and_by_whom(qless) -> None:
    run("qless_queue", "pause", "mail", "--reason", "a new server")
    pause = queues["mail"].counts().pause
    assert pause.reason == "a new server"
    assert pause.by == getpass.getuser()


def test_what_others_wait_for_is_left(qless) -> None:
    jid = add.using(queue="mail").delay(1).jid
    add.using(queue="mail").delay(1)
    add.using(queue="bulk", after=[jid]).delay(1)
    text = run("qless_queue", "empty", "mail", "--state", "waiting", "--no-input")
    assert "canceled: 1 job\n" in text
    assert f"not canceled: {jid} is a dependency of" in text


def test_a_long_chain_is_cancelled_whole(qless) -> None:
    before: list[str] = []
    for _ in range(300):
        before = [add.using(queue="mail", after=before).delay(1).jid]
    text = run("qless_queue", "empty", "mail", "--state", "depends", "--no-input")
    assert "canceled: 299 jobs" in text
    assert "not canceled" not in text
    assert qless.queue_counts("mail").depends == 0


def test_empty_then_forget(qless) -> None:
    add.using(queue="mail", delay=60).enqueue_many([add.args(1)] * 2)
    with pytest.raises(CommandError, match="mail is in use: 2 scheduled: empty it"):
        run("qless_queue", "forget", "mail")
    text = run("qless_queue", "empty", "mail", "--state", "scheduled", "--no-input")
    assert "canceled: 2 jobs" in text
    run("qless_queue", "forget", "mail")
    assert list(queues) == []


@pytest.mark.parametrize("weight", ["-1", "inf", "many"])
def test_a_weight_that_is_none_is_refused(weight: str) -> None:
    with pytest.raises(CommandError, match="is not a weight: give a number from 0"):
        run("qless_queue", "limit", "mail", f"--weight={weight}")


def test_held_as_json(qless) -> None:
    qless.config_set("mail-max-concurrency", 2)
    qless.config_set(f"{add.name}-max-concurrency-of-type", 1)
    add.using(queue="mail").enqueue_many([add.args(1)] * 3)
    qless.pop("mail", "w", 2)
    of_queue, of_type = data("qless_queue", "held", "mail")
    assert (of_queue["kind"], of_queue["running"], of_queue["most"]) == ("queue", 1, 2)
    assert (of_type["kind"], of_type["type"]) == ("type", add.name)
    assert data("qless_queue", "held", "other") == []


def test_empty_asks_first(qless, people) -> None:
    add.using(queue="mail", delay=60).enqueue_many([add.args(1)] * 2)
    with pytest.raises(CommandError, match="required: --state"):
        run("qless_queue", "empty", "mail", "--no-input")
    people.append("no")
    with pytest.raises(CommandError, match="Nothing was changed"):
        run("qless_queue", "empty", "mail", "--state", "scheduled")
    assert qless.queue_counts("mail").scheduled == 2
    people.append("yes")
    text = run("qless_queue", "empty", "mail", "--state", "scheduled")
    assert "canceled: 2 jobs" in text


def test_of_many_that_are_refused_some_are_named(qless) -> None:
    jids = [add.using(queue="mail").delay(1).jid for _ in range(REFUSALS + 3)]
    for jid in jids:
        add.using(queue="bulk", after=[jid]).delay(1)
    text = run("qless_queue", "empty", "mail", "--state", "waiting", "--no-input")
    assert text.count("not canceled: ") == REFUSALS
    assert text.endswith("… and 3 more\n")


def test_a_user_without_a_name_pauses_all_the_same(qless, monkeypatch) -> None:
    """As in a container: no variable names the user, nor does the system."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)
    run("qless_queue", "pause", "mail", "--reason", "why")
    pause = queues["mail"].counts().pause
    assert (pause.reason, pause.by) == ("why", "")
