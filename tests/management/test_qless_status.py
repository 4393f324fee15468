"""`manage.py qless_status`."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_qless.core import Settlement
from django_qless.core.commands.entities import Payload
from tests.jobs_app.jobs import add
from tests.management.commands import run
from tests.real_servers import Server


def test_an_unknown_alias_is_named() -> None:
    with pytest.raises(CommandError, match="'nowhere'"):
        run("qless_status", "--alias", "nowhere")


def test_status_is_shown_again_and_again(
    qless, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt
        add.delay(1)

    monkeypatch.setattr("time.sleep", pause)
    lines = run("qless_status", "--watch", "0.5", "--json").splitlines()
    counts = [[q["waiting"] for q in json.loads(line)["queues"]] for line in lines]
    assert counts == [[], [1], [2]]
    assert pauses == [0.5] * 3


def test_the_dead_are_no_failed_jobs(qless) -> None:
    assert "dead" not in run("qless_status")
    for entity in ("a", "b"):
        qless.push("", "orders", "sync", [Payload(entity, '{"v":1}', "1")])
    held = qless.settle("w", [], 2, ["orders"]).jobs
    ends = [Settlement(job.jid, job.token, "fail", ("bad", "m")) for job in held]
    qless.settle("w", ends, 0, ())
    status = json.loads(run("qless_status", "--json"))
    assert (status["failures"], status["dead"]) == ({}, {"orders": 2})
    assert (status["totals"]["failed"], status["totals"]["dead"]) == (0, 2)
    shown = run("qless_status")
    assert "no failures" in shown
    assert [line.split() for line in shown.splitlines() if "2     orders" in line]


WATCH = 1.2345


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch, *between: Callable[[], object]) -> str:
    """Return what a terminal gets; this happens between the looks."""
    steps, sleep = iter(between), time.sleep

    def pause(seconds: float) -> None:
        if seconds != WATCH:  # another's, such as that of a lost connection
            sleep(seconds)
        elif step := next(steps, None):
            step()
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", pause)
    out = Terminal()
    call_command(
        "qless_status", "--watch", f"{WATCH}", stdout=out, stderr=out, no_color=True
    )
    return out.getvalue()


def test_on_a_terminal_each_takes_the_place_of_the_last(
    qless, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = watched(monkeypatch, lambda: add.using(queue="mail").delay(1))
    blank, first, second = text.split("\033[H\033[J")
    assert blank == ""
    for shown in (first, second):
        assert re.match(r"default, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n\n", shown)
    assert "\nmail " not in first
    assert "\nmail " in second


def test_a_server_that_is_away_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Server("valkey") as server:
        alias = {"LOCATION": server.url, "PATIENCE": 0.2}
        with override_settings(QLESS={"default": alias}):
            text = watched(monkeypatch, server.kill, server.start)
    first, lost, third = re.split(r"^(.*server.sock.*)\n", text, maxsplit=1, flags=re.M)
    assert first.count("default, ") == 1
    assert third.count("default, ") == 1
    assert lost
