"""`manage.py qless_queue`."""

from __future__ import annotations

import getpass

import pytest
from django.core.management import CommandError

from django_qless import queues
from tests.jobs_app.jobs import add
from tests.management.commands import data, run


def test_list_and_limits(qless) -> None:
    add.using(queue="mail").delay(1)
    run("qless_queue", "limit", "mail", "--max-concurrency", "4", "--weight", "0.5")
    text = run("qless_queue", "list")
    assert "mail" in text
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


def test_a_pause_says_why_and_by_whom(qless) -> None:
    run("qless_queue", "pause", "mail", "--reason", "a new server")
    pause = queues["mail"].counts().pause
    assert pause.reason == "a new server"
    assert pause.by == getpass.getuser()


def test_what_others_wait_for_is_left(qless) -> None:
    jid = add.using(queue="mail").delay(1).jid
    add.using(queue="mail").delay(1)
    add.using(queue="bulk", after_jids=[jid]).delay(1)
    text = run("qless_queue", "empty", "mail", "--state", "waiting", "--no-input")
    assert "canceled: 1 job\n" in text
    assert f"not canceled: {jid} is a dependency of" in text


def test_a_long_chain_is_cancelled_whole(qless) -> None:
    before: list[str] = []
    for _ in range(300):
        before = [add.using(queue="mail", after_jids=before).delay(1).jid]
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
