"""The option failed_queue, from the setting to the handle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_qless.conf.config_sync import sync_config
from django_qless.conf.connections import connections
from django_qless.core import BadArgument, Settlement
from tests.jobs_app import jobs

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper


def test_a_failed_job_goes_on_where_the_setting_says(
    qless: object, settings: SettingsWrapper
) -> None:
    default = {
        **settings.QLESS["default"],
        "QUEUES": {"default": {"failed_queue": "broken"}},
    }
    settings.QLESS = {**settings.QLESS, "default": default}
    sync_config()
    client = connections["default"]
    handle = jobs.add.delay(1, 2)
    (job,) = client.settle("w", (), count=1, queues=["default"]).jobs
    failure = Settlement(job.jid, job.token, "fail", ("bad-input", "no name"))
    client.settle("w", [failure], count=0, queues=())
    now = handle.refresh()
    assert (now.state, now.queue, now.failed_from) == ("waiting", "broken", "default")
    assert now.failure is not None
    assert now.failure[:2] == ("bad-input", "no name")
    # Back by hand: it starts afresh.
    now.move("default")
    again = handle.refresh()
    assert (again.queue, again.failed_from) == ("default", None)


def test_a_queue_cannot_name_itself(qless: object) -> None:
    with pytest.raises(BadArgument, match="another queue"):
        connections["default"].config_set("mail-failed-queue", "mail")
