"""What is done to many jobs, by clicking: those that are ticked, and all that match."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from django_qless.core import Client
    from tests.admin.browser.actions.conftest import Make
    from tests.admin.browser.operating import Operator

pytestmark = pytest.mark.xdist_group("actions")

MANY = 600
"""Jobs: more than two chunks of a bulk action."""


@pytest.mark.parametrize(
    ("button", "submit", "fields", "told", "is_done"),
    [
        (
            *("Tag", "Tag", {"Tag": "red"}, "Added the tag “red” to 2 jobs."),
            lambda job: "red" in job.tags,
        ),
        (
            *("Untag", "Remove tag", {"Tag": "old"}),
            *("Removed the tag “old” from 2 jobs.", lambda job: not job.tags),
        ),
        (
            *("Priority", "Change priority", {"Priority": "9"}),
            *("Changed the priority of 2 jobs to 9.", lambda job: job.priority == 9),
        ),
        ("Track", "Track", {}, "Now tracking 2 jobs.", lambda job: job.tracked),
        (
            *("Move", "Move", {"To_the_queue": "moved"}),
            *("Moved 2 jobs to the queue", lambda job: job.queue == "moved"),
        ),
        (
            *("Cancel", "Cancel the jobs", {}, "Canceled 2 jobs."),
            lambda job: job.state == "canceled",
        ),
        ("Retry", "Retry", {}, "Retried 2 jobs.", lambda job: job.state == "waiting"),
    ],
    ids=["tag", "untag", "priority", "track", "move", "cancel", "retry"],
)
def test_selected_jobs(
    operator: Operator,
    client: Client,
    button: str,
    submit: str,
    fields: dict[str, str],
    told: str,
    is_done: Callable[[Any], bool],
) -> None:
    """It is done to those that are ticked, and to no other."""
    names = ["0", "1", "2"]
    if button == "Retry":
        group = f"Picked {operator.own}"
        first, other, last = (operator.put_failed(name, group) for name in names)
        operator.go("job", query=f"?group={group}")
    else:
        first, other, last = (operator.put(name, tags=["old"]) for name in names)
        operator.go("job", query=f"?queue={operator.own}")
    before = client.brief([other])
    for jid in (first, last):
        operator.main.get_by_label(f"Select job {jid}").check()
    operator.do(button, submit, asks="2 jobs", told=told, **fields)
    assert client.brief([other]) == before
    assert [is_done(job) for job in client.brief([first, last])] == [True, True]


@pytest.fixture
def many(operator_with: Make, client: Client) -> Callable[..., Operator]:
    """Enqueues many jobs; returns an operator on the page of all that match."""

    def make(**options: Any) -> Operator:
        operator = operator_with(**options)
        jids = [f"{operator.own}.{number}" for number in range(MANY)]
        operator.put_many(jids, operator.own)
        operator.go("job", query=f"?queue={operator.own}&state=waiting")
        return operator

    return make


def test_all_that_match(many: Make, client: Client) -> None:
    """It goes on by itself until all is done."""
    operator = many()
    told = f"Moved {MANY} jobs to the queue “all-moved”."
    operator.press("Move all…")
    operator.asks(f"Move {MANY} jobs?")
    operator.fill(To_the_queue="all-moved")
    operator.do("Move", told=told)
    assert client.queue_counts(operator.own).waiting == 0
    assert client.queue_counts("all-moved").waiting == MANY


def test_stopping_it(many: Make, client: Client) -> None:
    """It keeps to its rate, shows how far it is, and can be stopped."""
    operator = many()
    operator.press("Cancel all…")
    operator.fill(Jobs_per_second="100")
    operator.press("Cancel the jobs")
    operator.asks("In progress.")
    expect(operator.button("Continue")).to_be_hidden()
    bar = operator.main.get_by_role("progressbar")
    expect(bar).to_have_attribute("max", str(MANY))
    # By itself, a second later.
    expect(operator.main).not_to_contain_text("Canceled 100 jobs.")
    operator.press("Stop")
    operator.asks("Stopped.")
    expect(operator.button("Stop")).to_have_count(0)
    left = client.queue_counts(operator.own).waiting
    assert 0 < left < MANY - 100
    operator.asks(f"Canceled {MANY - left} jobs.")
    operator.press("Go back")
    expect(operator.page).to_have_url(re.compile(rf"\?.*queue={operator.own}"))


def test_all_that_match_without_scripts(many: Make) -> None:
    """A button does the same, four chunks at a time after the first."""
    operator = many(java_script_enabled=False)
    operator.press("Tag all…")
    operator.fill(Tag="seen")
    operator.press("Tag")
    operator.asks("Added the tag “seen” to 250 jobs.")
    operator.asks("In progress.")
    operator.do("Continue", told=f"Added the tag “seen” to {MANY} jobs.")
    for number in (0, MANY - 1):
        assert "seen" in operator.job(f"{operator.own}.{number}").tags


def test_failures(operator: Operator, client: Client) -> None:
    """All of a group are retried; all of another one are canceled."""
    back = [operator.put_failed(f"back{number}", "Back") for number in range(2)]
    gone = [operator.put_failed(f"gone{number}", "Gone") for number in range(2)]
    operator.go("failure")
    asks = "Retry 2 jobs?"
    operator.do("Retry all of Back", "Retry", asks=asks, told="Retried 2 jobs.")
    assert [job.state for job in client.brief(back)] == ["waiting"] * 2
    operator.do("Cancel all of Gone", "Cancel the jobs", told="Canceled 2 jobs.")
    assert [job.state for job in client.brief(gone)] == ["canceled"] * 2
    assert client.failed().keys().isdisjoint({"Back", "Gone"})
