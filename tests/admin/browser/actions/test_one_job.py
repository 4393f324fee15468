"""What is done to one job, by clicking, while a worker runs; and what came of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.admin.browser.actions.conftest import FAILING, HOLDS, completes
from tests.admin.browser.operating import ADD
from tests.admin.browser.scene import LIVE_QUEUE
from tests.real_servers import poll

if TYPE_CHECKING:
    from django_qless.core import Client
    from tests.admin.browser.operating import Operator

pytestmark = pytest.mark.xdist_group("actions")


@pytest.mark.usefixtures("worker")
def test_retry(operator: Operator, client: Client) -> None:
    """The worker runs it again; when it has failed again, that shows."""
    jid = operator.put("", LIVE_QUEUE, '"Boom","no"', FAILING, retries=0)

    def failures() -> int:
        # Counted: the times of failures are whole seconds, and these two may share one.
        job = client.get(jid)
        assert job is not None
        return sum(each["what"] == "failed" for each in job.history)

    poll(lambda: failures() == 1, what="fails")
    operator.go("job", jid)
    operator.do("Retry", told=f"Job {FAILING} is back in queue {LIVE_QUEUE}.")
    poll(lambda: failures() == 2, what="it runs again and fails again")
    # By itself.
    expect(operator.button("Retry")).to_be_visible()


def test_a_refusal(operator: Operator, client: Client) -> None:
    """What has changed since the page was loaded is told, and nothing is done."""
    jid = operator.put_failed("refused", "Refused")
    operator.go("job", jid)
    client.revive_each([jid])
    operator.press("Retry")
    operator.refused(409, "failed")
    assert operator.job(jid).state == "waiting"
    operator.press("Go back")
    expect(operator.button("Cancel…")).to_be_visible()
    expect(operator.button("Retry")).to_have_count(0)


@pytest.mark.usefixtures("worker")
def test_run(operator: Operator) -> None:
    """A scheduled job is run by the worker now."""
    jid = operator.visit_job("", LIVE_QUEUE, delay=3600)
    operator.do("Run now", told="is due now in queue live")
    completes(operator, jid)


@pytest.mark.usefixtures("worker")
def test_move(operator: Operator) -> None:
    """The worker finds it where it was moved to."""
    jid = operator.visit_job()
    operator.do("Move…", "Move", told="is in queue live now", Queue=LIVE_QUEUE)
    completes(operator, jid)


def test_priority(operator: Operator) -> None:
    jid = operator.visit_job()
    told = f"The priority of {ADD} is 7; it was 0."
    operator.do("Change priority…", "Change priority", told=told, Priority="7")
    assert operator.job(jid).priority == 7


def test_tags(operator: Operator) -> None:
    """Tags come, and go by the cross on them."""
    jid = operator.visit_job(tags=["old"])
    told = f"Added to job {ADD}: new one, another."
    operator.do("Add tags…", "Add tags", told=told, Tags="new one\nanother")
    assert operator.job(jid).tags == ("old", "new one", "another")
    operator.do("Remove tag old", told="Removed the tag old from job")
    assert operator.job(jid).tags == ("new one", "another")


def test_tracking(operator: Operator) -> None:
    jid = operator.visit_job()
    operator.do("Track", told="is tracked: its events are published.")
    assert operator.job(jid).tracked
    operator.do("Stop tracking", told="is no longer tracked.")
    assert not operator.job(jid).tracked


def test_time_out_and_cancel(operator: Operator, client: Client, worker: str) -> None:
    """What the worker runs is taken from it; and is canceled as it runs again."""
    jid = operator.put("", LIVE_QUEUE, "", HOLDS)

    def runs() -> bool:
        # Not only reserved: it has reported progress.
        job = operator.job(jid)
        return job.state == "running" and job.progress is not None

    poll(runs, what="the worker runs it")
    client.pause(LIVE_QUEUE)
    try:
        operator.go("job", jid)
        asks, told = f"Take {HOLDS} from its worker", f"Job {HOLDS} was taken from"
        operator.do(
            "Time out…", "Time out", asks=f"{asks} {worker}?", told=f"{told} {worker}"
        )
        assert operator.job(jid).state == "waiting"
    finally:
        client.unpause(LIVE_QUEUE)
    poll(runs, what="the worker runs it again")
    operator.page.reload()
    operator.do(
        *("Cancel…", "Cancel the job"),
        asks="Its worker stops working on it.",
        told=f"Job {HOLDS} ({jid}) is canceled.",
    )
    assert client.get(jid).canceled
    assert jid not in client.worker_jobs(worker).jobs


def test_cancel_with_dependents(operator: Operator, client: Client) -> None:
    """Those that wait for it go as well, if that is wanted."""
    first = operator.put("first")
    following = operator.put("next", depends=[first])
    last = operator.put("last", depends=[following])
    operator.go("job", first)
    operator.press("Cancel…")
    operator.asks("1 job waits for it.")
    operator.main.get_by_label("Also cancel the jobs that wait for it").check()
    told = "2 jobs that waited for it are canceled, too."
    operator.do("Cancel the job", told=told)
    states = [brief.state for brief in client.brief([first, following, last])]
    assert states == ["canceled"] * 3


@pytest.mark.usefixtures("worker")
def test_edit(operator: Operator, client: Client) -> None:
    """A job that failed for its data is enqueued with better ones; and another."""
    jid = operator.put("", LIVE_QUEUE, '"x",1', retries=0)
    poll(lambda: operator.job(jid).state == "failed", what="it fails")
    operator.go("job", jid)
    operator.press("Enqueue again…")
    operator.fill(Data="no JSON")
    operator.press("Enqueue again")
    operator.refused(409, "The data is not JSON")
    operator.fill(Data='{"v": 1, "args": [20, 3]}')
    operator.do("Enqueue again", told="is in queue live again.")
    completes(operator, jid)
    job = client.get(jid)
    assert job is not None
    assert json.loads(job.data)["args"] == [20, 3]
    operator.go("job", jid)
    operator.press("Enqueue again…")
    choice = "a new job like this: this one stays as it is"
    operator.field("Enqueue").select_option(choice)
    operator.fill(Queue=operator.own, Priority="3")
    operator.do("Enqueue again", told=f"is in queue {operator.own}: job")
    words = operator.page.locator("ul.messagelist").inner_text()
    new = operator.job(words.rpartition("job ")[2].strip(" .\n"))
    assert (new.queue, new.state, new.priority) == (operator.own, "waiting", 3)


def test_undepend(operator: Operator) -> None:
    """It waits no longer for one, then for none."""
    others = [operator.put(name) for name in ("one", "two", "three")]
    jid = operator.visit_job("waits", depends=others)
    operator.main.get_by_text("Stop waiting for one of them").click()
    two = others[1]
    told = f"no longer waits for {two}."
    operator.do(f"Stop waiting for {ADD} {two}…", "Stop waiting", told=told)
    assert operator.job(jid).state == "depends"
    told = "no longer waits for other jobs."
    operator.do("Stop waiting…", "Stop waiting", told=told)
    assert operator.job(jid).state == "waiting"


def test_list_of_tracked_jobs(operator: Operator, client: Client) -> None:
    """A job is tracked by its id, and one that is gone is taken off the list."""
    jid = operator.put()
    operator.go("tracked")
    operator.fill(Id_of_the_job=jid)
    operator.do("Track", told=f"Now tracking the job {jid}.")
    assert operator.job(jid).tracked
    client.cancel([jid])
    client.redis.delete(f"{client.prefix}canceled:{jid}")  # as the server does in time
    operator.page.reload()
    operator.do(f"Stop tracking {jid}", told=f"Stopped tracking the job {jid}.")
    assert jid not in client.tracked().expired
