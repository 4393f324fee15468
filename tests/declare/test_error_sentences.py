"""Errors say that nothing was enqueued only where something could have been."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from django_qless import exponential, job, recurring
from django_qless.exceptions import InvalidOption
from tests.jobs_app import jobs

SENTENCE = "Nothing was enqueued."


def declared(**options: Any) -> Any:
    @job(**options)
    def some_job() -> None: ...

    return some_job


@pytest.mark.parametrize(
    "call",
    [
        lambda: jobs.add.using(retries=-1).delay(1, 2),
        lambda: jobs.add.using(no_such_option=1).delay(1, 2),
        lambda: jobs.add.using(queue="a*").delay(1, 2),
    ],
)
def test_a_call_that_enqueues_says_so(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidOption) as raised:
        call()
    assert str(raised.value).endswith(SENTENCE)


@pytest.mark.parametrize(
    "call",
    [
        lambda: declared(retries=-1),
        lambda: declared(no_such_option=1),
        lambda: declared(cron="x"),
        lambda: exponential(base=10, maximum=1),
    ],
)
def test_a_declaration_does_not(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidOption) as raised:
        call()
    assert SENTENCE not in str(raised.value)
    assert SENTENCE not in str(pickle.loads(pickle.dumps(raised.value)))


def test_a_change_of_a_schedule_does_not(qless: Any) -> None:
    schedule = jobs.add.recur(1, every=3600)
    for changes in ({}, {"no_such_option": 1}, {"retries": -1}):
        with pytest.raises(InvalidOption) as raised:
            recurring[schedule.id].update(**changes)
        assert SENTENCE not in str(raised.value)
