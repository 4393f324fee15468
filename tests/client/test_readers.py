"""What replies, texts and refusals are read as, without a server."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from django_qless.core import BadArgument, Job
from django_qless.core import exceptions as ours
from django_qless.core.commands.settle import held_text
from django_qless.core.listings import Brief, read_rows
from django_qless.core.protocol import read_info
from django_qless.core.request import (
    optional_number,
    read_flat,
    read_json,
    read_list,
    read_listing,
    read_pairs,
)
from django_qless.core.settle import Refused, Reserved
from django_qless.core.waiting import time_left


def row(**given: Any) -> list[Any]:
    """Return a summary as the core sends it: False where there is nothing."""
    names = (
        *("klass", "queue", "state", "priority", "retries", "remaining", "tags"),
        *("worker", "since", "expires", "spawned_from", "due", "group", "progress"),
        *("workflow", "tracked", "put", "jid"),
    )
    values = {"klass": "k", "state": "waiting", "jid": "j"} | given
    return [values.get(name, False) for name in names]


def test_a_summary_without_anything() -> None:
    brief = Brief.read(row())
    assert (brief.jid, brief.klass, brief.state) == ("j", "k", "waiting")
    assert (brief.queue, brief.worker, brief.tags) == ("", "", ())
    assert (brief.priority, brief.retries, brief.remaining) == (0, 0, 0)
    assert (brief.since, brief.expires) == (0.0, 0.0)
    assert (brief.put, brief.due, brief.group, brief.progress) == (None,) * 4
    assert (brief.workflow, brief.spawned_from, brief.tracked) == (None, None, False)


def test_a_summary_with_everything() -> None:
    brief = Brief.read(
        row(
            queue="q",
            worker="w",
            tags='["a","ü"]',
            priority="2.5",
            retries="5.0",
            remaining="4",
            since="1.5",
            expires="2.5",
            put="0.5",
            due="3.5",
            group="",
            progress='[1,"done"]',
            workflow="f",
            spawned_from="s",
            tracked=True,
        )
    )
    assert (brief.queue, brief.worker, brief.tags) == ("q", "w", ("a", "ü"))
    assert (brief.priority, brief.retries, brief.remaining) == (2.5, 5, 4)
    assert (brief.since, brief.expires, brief.put, brief.due) == (1.5, 2.5, 0.5, 3.5)
    assert (brief.group, brief.progress) == ("", (1.0, "done"))
    assert (brief.workflow, brief.spawned_from, brief.tracked) == ("f", "s", True)


@pytest.mark.parametrize(
    ("text", "progress"),
    [("[0.5]", (0.5, "")), ("[]", None), ("null", None), ('[0,"x"]', (0.0, "x"))],
)
def test_progress_without_a_text(text: str, progress: Any) -> None:
    assert Brief.read(row(progress=text)).progress == progress


def test_whole_priorities_are_whole_numbers() -> None:
    for text, expected in (("3", 3), ("-3.0", -3), ("1e3", 1000), ("0.5", 0.5)):
        priority = Brief.read(row(priority=text)).priority
        assert (priority, type(priority)) == (expected, type(expected))


def test_rows_of_jobs_that_are_gone_are_left_out() -> None:
    assert [brief.jid for brief in read_rows([row(), False, row(jid="i")])] == [
        "j",
        "i",
    ]
    assert read_rows({}) == read_rows(None) == []


def test_lists_and_pairs() -> None:
    assert read_list("{}") == []
    assert read_list("[1]") == [1]
    assert read_json(None) is None
    assert read_json("false") is False
    assert read_listing('{"total":3,"jobs":{}}') == (3, [])
    assert read_listing('{"total":3,"jobs":["a"]}') == (3, ["a"])
    assert read_pairs(["a", "1", "b", "2"]) == {"a": "1", "b": "2"}
    assert read_flat("xy", [1, 2, 3, 4]) == [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    assert read_flat("xy", []) == []
    for broken in (lambda: read_pairs(["a"]), lambda: read_flat("xy", [1, 2, 3])):
        with pytest.raises(ValueError, match="shorter"):
            broken()
    assert optional_number("") is None
    assert optional_number("0") == 0.0


def test_the_reply_to_info() -> None:
    text = "# Server\r\nredis_version:7.2.4\r\n\r\nuptime:12\r\nload:-1\r\nx:a:b\r\n#y:1\r\n"
    assert read_info(text) == {
        "redis_version": "7.2.4",
        "uptime": 12,
        "load": "-1",
        "x": "a:b",
    }


@pytest.mark.parametrize(
    ("held", "text"),
    [
        *[(None, ""), (0, "0"), (0.0, "0"), (-3.5, "0"), (0.0004, "0")],
        *[(0.0005, "0.001"), (0.25, "0.250"), (3, "3.000"), (12345.6789, "12345.679")],
    ],
)
def test_how_long_a_worker_held_a_job_back(held: Any, text: str) -> None:
    assert held_text(held) == text


@pytest.mark.parametrize("held", [math.inf, math.nan, True, "1", 10**400])
def test_what_is_no_such_time(held: Any) -> None:
    with pytest.raises(BadArgument, match="held must be"):
        held_text(held)


def test_a_job_without_tags_has_none() -> None:
    job = Reserved("j", "q", "k", "{}", "1", 5, 5, 0, "", "", 0.0)
    assert job.tag_list == []


def test_a_refused_settlement_is_the_error_of_its_code() -> None:
    error = Refused("j", "LOCKLOST", "text").error
    assert (type(error), error.detail) == (ours.LockLost, "text")
    assert type(Refused("j", "NEVERHEARD", "text").error) is ours.ServerError


def test_how_long_to_wait_still() -> None:
    for_ever = time_left(None)
    assert [next(for_ever) for _ in range(3)] == [None] * 3
    assert list(time_left(0)) == list(time_left(-1)) == [0]
    left = [float(each or 0) for each in time_left(0.005)]
    assert left[0] == 0.005
    assert left == sorted(left, reverse=True)
    assert left[-1] > 0
    with pytest.raises(BadArgument, match="timeout must be a number"):
        next(time_left("5"))  # type: ignore[arg-type]


def test_reading_a_job_with_the_least_that_an_old_core_sends() -> None:
    members = dict.fromkeys(("klass", "queue", "worker", "data"), "x")
    members |= {"jid": "j", "state": "waiting", "spawned_from_jid": ""}
    rest: dict[str, Any] = {"priority": 0, "retries": 5, "remaining": 5, "expires": 0}
    rest |= {"tracked": False, "failure": {}}
    rest |= {key: {} for key in ("tags", "history", "dependents", "dependencies")}
    job = Job.read(None, json.loads(json.dumps({**members, **rest})))
    assert (job.tags, job.history, job.dependents, job.dependencies) == ((), (), (), ())
    assert (job.failure, job.spawned_from, job.token, job.context) == (
        None,
        None,
        "",
        {},
    )
    assert (job.progress, job.crashes, job.on_failure) == (None, 0, "block")
    assert (job.unique, job.workflow, job.canceled) == (None,) * 3
