"""Jobs, queues and the other thin objects do what their client does."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from django_qless.core import (
    BadArgument,
    Client,
    DetachedRun,
    HasDependents,
    JobNotFound,
    LockLost,
    Reserved,
)


def test_a_job_is_a_frozen_snapshot(client: Client) -> None:
    client.put("", "q", "a", "k", "{}")
    job = client.get("a")
    assert job is not None
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.state = "running"
    client.priority("a", 4)
    assert job.priority == 0
    assert job.refresh().priority == 4
    assert dataclasses.replace(job, client=None) == job


def test_what_its_holder_does_with_a_job(client: Client) -> None:
    queue = client.queue("q")
    queue.put("a", "k", '{"a":1}')
    (job,) = queue.pop("w")
    assert job.heartbeat() > 0
    assert job.heartbeat('"kept"') > 0
    job.set_progress(0.5, "half")
    job.log("message", '{"a":1}')
    job.release()
    with pytest.raises(LockLost):
        job.complete()
    (job,) = queue.pop("w")
    assert job.data == '"kept"'
    assert job.retry(0, "group", "message") == 4
    (job,) = queue.pop("w")
    assert job.complete(next="r") == "waiting"
    (job,) = client.queue("r").pop("w")
    assert job.complete('"done"', result="[1]", result_ttl=60) == "complete"
    assert job.result() == [1]
    assert job.refresh().data == '"done"'
    queue.put("b", "k", "{}")
    (job,) = queue.pop("w")
    assert job.fail("group", "message", '"why"') == "b"
    assert job.refresh().failure.message == "message"


def test_what_others_do_with_a_job(client: Client) -> None:
    for jid in ("a", "b", "c"):
        client.put("", "q", jid, "k", "{}")
    client.put("", "q", "d", "k", "{}", depends=["a"])
    job, dependent = client.multiget(["a", "d"])
    with pytest.raises(HasDependents):
        job.cancel()
    dependent.depends_on("b", "c")
    dependent.depends_off("a", "b")
    dependent.depends_off()
    assert dependent.refresh().state == "waiting"
    assert job.tag("x", "y") == ["x", "y"]
    assert job.untag("x") == ["y"]
    assert job.track()
    assert job.untrack()
    assert job.set_priority(9) == 9
    assert job.move("r", 60) == "a"
    assert job.refresh().state == "scheduled"
    assert job.refresh().queue == "r"
    job.move("q")
    assert client.pop("q", "w")[0].jid == "a"
    job.timeout()
    assert job.refresh().state == "waiting"
    assert job.cancel() == ["a"]
    assert job.refresh().state == "canceled"
    assert job.refresh().canceled.was == "stalled"
    with pytest.raises(JobNotFound):
        job.move("q")


def test_a_moved_job_keeps_what_it_carries(client: Client) -> None:
    client.put("", "q", "a", "k", "{}", tags=["t"], context='{"options":{"timeout":5}}')
    client.get("a").move("r")
    moved = client.get("a")
    assert moved.context == {"options": {"timeout": 5}}
    assert moved.tags == ("t",)


def test_a_queue(client: Client) -> None:
    queue = client.queue("q")
    queue.put("a", "k", "{}", 60, priority=2, retries=1, tags=["t"], context='{"a":1}')
    assert queue.put("a", "k", "{}", absent=True) is None
    assert queue.jobs("scheduled") == ["a"]
    assert queue.length() == 1
    assert queue.peek() == []
    assert queue.counts().scheduled == 1
    queue.pause()
    assert queue.counts().paused
    queue.unpause()
    queue.set_heartbeat(5)
    queue.set_max_concurrency(1)
    assert client.config_get("q-heartbeat") == "5"
    for jid in ("b", "c"):
        queue.put(jid, "k", "{}")
    assert len(queue.pop("w", 2)) == 1
    assert queue.stats(0).wait.count == 0
    assert queue.minutes(0, 1).put == {}
    queue.forget()
    assert client.queues() == []


def test_a_recurring_job(client: Client) -> None:
    client.recur("q", "tick", "k", "{}", 60, 60)
    tick = client.recur_get("tick")
    assert tick is not None
    tick.update(interval=30, priority=1)
    assert tick.tag("t") == ["t"]
    assert tick.untag("t") == []
    assert tick.refresh().interval == 30
    tick.cancel()
    assert tick.refresh() is None


def test_reserved_reads_its_texts_when_asked() -> None:
    job = Reserved("j", "q", "k", "{}", "1", 5, 5, 0, "{}", "", 0.0)
    assert (job.tag_list, job.context_object) == ([], {})
    job = job._replace(tags='["a"]', context='{"a":1}')
    assert (job.tag_list, job.context_object) == (["a"], {"a": 1})


@pytest.mark.parametrize("jobs", [-1, 1.5, True, "2", None])
def test_a_number_of_jobs_that_is_none_is_refused(client: Client, jobs: Any) -> None:
    words = re.escape(f"or 0 for any number, not {jobs!r}")
    with pytest.raises(BadArgument, match=words):
        client.queue("q").set_max_concurrency(jobs)
    assert client.config_get("q-max-concurrency") is None


def test_a_detached_run_is_read_with_what_is_missing() -> None:
    text = (
        '{"host":"h","pid":7,"started":1.5,"ended":2.5,"output":"one","end":"status 0"}'
    )
    assert DetachedRun.read(text) == DetachedRun("h", 7, 1.5, 2.5, "one", "status 0")
    assert DetachedRun.read("{}") == DetachedRun("", 0, 0.0, None, "", "")
    assert DetachedRun.read("") is DetachedRun.read(None) is None
