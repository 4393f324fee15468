"""What cannot be undone is marked where it is asked about, and is asked about at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_qless.schedules.declared import sync_schedules
from tests.admin.reading import Page, read
from tests.admin.stock import put, take
from tests.schedules.declaring import declaring

if TYPE_CHECKING:
    from django.test import Client as Browser

    from django_qless.core import Client

pytestmark = pytest.mark.django_db

APP = "/admin/django_qless/"
DECLARED = "jobs_app.Feed.check_all"
WORKER = '{"queues": ["*"], "state": "running", "concurrency": 1}'


def submits(page: Page) -> list[tuple[str, bool]]:
    """Return the buttons that end the form: label, and whether danger is marked."""
    return [
        (
            each.attributes["value"] or "",
            "qless-danger" in str(each.attributes["class"]),
        )
        for each in page.root.all("input")
        if each.attributes.get("type") == "submit" and "class" in each.attributes
    ]


@pytest.mark.parametrize(
    ("path", "label", "is_danger"),
    [
        ("recurring/{declared}/run/", "Run now", False),
        ("recurring/{declared}/pause/", "Pause", False),
        ("recurring/{declared}/resume/", "Resume", False),
        ("recurring/{declared}/remove/", "Remove", True),
        ("recurring/{declared}/reset/", "Reset to the declaration", True),
        ("job/held/timeout/", "Time out", True),
        ("job/held/track/", "Track", False),
        ("job/held/move/", "Move", False),
        ("job/waits/cancel/", "", True),
        ("job/waits/priority/", "Change priority", False),
        ("queue/q/pause/", "Pause", False),
        ("queue/q/resume/", "Resume", False),
        ("queue/q/forget/", "Forget", True),
        ("worker/w/quiet/", "Quiet", False),
        ("worker/w/resume/", "Resume", False),
        ("worker/w/stop/", "Stop", True),
        ("worker/w/forget/", "Forget", True),
    ],
)
def test_a_question_marks_what_cannot_be_undone(
    path: str, label: str, is_danger: bool, admin_browser: Browser, qless: Client
) -> None:
    put(qless, "q", "held", "waits")
    take(qless, "q")
    qless.beat("w", WORKER, [])
    with declaring() as declare:
        declare(DECLARED, every=60, queue="checks")
        sync_schedules(anyway=True)
        address = APP + path.format(declared=DECLARED)
        [(shown, marked)] = submits(read(admin_browser.get(address)))
    assert marked == is_danger
    assert label in shown


def test_a_worker_is_not_stopped_by_one_click(
    admin_browser: Browser, qless: Client
) -> None:
    qless.beat("w", WORKER, [])
    page = read(admin_browser.get(f"{APP}worker/w/change/"))
    # A form acts, and a link leads to the question.
    acting = {each.attributes.get("action") for each in page.root.all("form")}
    assert f"{APP}worker/w/quiet/" in acting
    assert f"{APP}worker/w/stop/" not in acting
    assert page.links()["Stop"] == f"{APP}worker/w/stop/"
