"""Tasks with arguments and results that must not be seen."""

from __future__ import annotations

import json

import pytest
from django.conf import settings
from django.test import override_settings

from django_qless import jobs
from django_qless.job_types.redaction import HIDDEN, may_show_result, redact
from tests.tasks import work
from tests.tasks.installed import InvalidTask, task


@pytest.mark.parametrize("name", [None, "renamed.since"])
def test_arguments_are_hidden(qless, drain, name) -> None:
    for result, expected in (
        (work.log_in.enqueue("ann", "hunter2"), ["ann", HIDDEN]),
        (work.in_secret.enqueue("hunter2", 5), [HIDDEN, 5]),
    ):
        handle = jobs[result.id]
        text = redact(name or handle.name, handle.data).text
        assert json.loads(text)["args"] == expected
    drain()
    result.refresh()
    assert result.return_value == "hunter2"
    assert result.args == ["hunter2", 5]


def test_results_are_hidden(qless) -> None:
    hidden, shown = (
        jobs[each.id]
        for each in (work.log_in.enqueue("ann"), work.in_secret.enqueue("x"))
    )
    assert not may_show_result(hidden.name, hidden.data)
    assert not may_show_result("renamed.since", hidden.data)
    assert may_show_result(shown.name, shown.data)


def test_a_name_that_is_no_parameter_is_refused(qless) -> None:
    with pytest.raises(InvalidTask, match=r"names 'passwort'.*it has none"):
        task(sensitive="passwort")(work.plain)


def test_it_belongs_to_the_code(qless) -> None:
    with pytest.raises(InvalidTask, match="belongs to the job's code"):
        work.log_in.using(sensitive=True)


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_encrypted_tasks_run_and_are_read(qless, drain, compression) -> None:
    key = "A" * 43 + "="
    sealed = {"ENCRYPTION_KEYS": [key], "COMPRESSION": compression}
    default = {**settings.QLESS["default"], **sealed}
    with override_settings(QLESS={**settings.QLESS, "default": default}):
        result = work.in_secret.enqueue("hunter2" * 500, 5)
        handle = jobs[result.id]
        assert handle.data.startswith('"qless:fernet:')
        drain()
        result.refresh()
        assert result.return_value == "hunter2" * 500
        assert result.args == ["hunter2" * 500, 5]
        assert "hunter2" not in handle.refresh().data
