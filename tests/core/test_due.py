"""A delayed job whose time has come is waiting in every place, before anybody moves it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.caller import listed
from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot
from tests.core.test_job_summary import brief, jids

DUE, LATER = 10, 1000


@pytest.fixture
def delayed(keyed: Keyed) -> Keyed:
    """A job that falls due at 10 and one that does at 1000; none is popped."""
    keyed.put("due", 0, delay=DUE, tags=["tag"])
    keyed.put("later", 0, delay=LATER, tags=["tag"])
    keyed.put("waits", 0, queue="other", depends=["due", "later"])
    for jid in ("due", "later"):
        keyed.call("track", "track", jid, now=0)
    return keyed


def states(keyed: Keyed, jid: str, now: Any) -> dict[str, str]:
    """Return a job's state in each place that shows it."""
    view = keyed.json("job.view", jid, 10, 10, now=now)
    [link] = [
        row
        for row in keyed.json("job.view", "waits", 10, 10, now=now)["dependencies"]
        if row[-1] == jid
    ]
    tracked = keyed.json("track", now=now)["jobs"]
    found = {
        "get": keyed.job(jid, now)["state"],
        "multiget": keyed.json("multiget", jid, now=now)[0]["state"],
        "brief": brief(keyed, jid, now)["state"],
        "job.view": view["job"]["state"],
        "job.view in brief": view["brief"][2],
        "job.view of another": link[2],
        "track": next(job["state"] for job in tracked if job["jid"] == jid),
        "await": keyed.call("await", "waiter", 0, "job", jid, now=now)[1],
        "each": keyed.call("each", "revive", jid, now=now)[1][1].split()[-1],
        "timeout": keyed.refusal("timeout", jid, now=now).split()[-1],
        "heartbeat": keyed.refusal("heartbeat", jid, "token", now=now).split()[-1],
    }
    peeked = listed(keyed.json("peek", "queue", 10, now=now))
    for name, seen in {
        "peek": [job["jid"] for job in peeked if job["state"] == "waiting"],
        "jobs": keyed.call("jobs", "waiting", "queue", now=now),
        "briefs": jids(keyed, "waiting", "queue", 0, 9, now=now),
    }.items():
        found[name] = "waiting" if jid in seen else "scheduled"
    for name, seen in {
        "jobs scheduled": keyed.call("jobs", "scheduled", "queue", now=now),
        "briefs scheduled": jids(keyed, "scheduled", "queue", 0, 9, now=now),
    }.items():
        found[name] = "scheduled" if jid in seen else "waiting"
    return found


@pytest.mark.parametrize("now", [DUE, DUE + 0.5, LATER - 1])
def test_a_due_job_is_waiting_in_every_list(delayed: Keyed, now: float) -> None:
    before = snapshot(delayed.server)
    assert set(states(delayed, "due", now).values()) == {"waiting"}
    assert set(states(delayed, "later", now).values()) == {"scheduled"}
    counts = delayed.json("queues", "queue", now=now)
    assert (counts["waiting"], counts["scheduled"]) == (1, 1)
    refused = delayed.refusal("queue.forget.empty", "queue", now=now)
    assert refused.endswith("is in use: 1 waiting, 1 scheduled")
    # Nothing was written, but what keeps the clock of calls that may write.
    after = snapshot(delayed.server)
    assert {name for name in before | after if before.get(name) != after.get(name)} <= {
        "ql:meta"
    }


def test_a_delayed_job_is_scheduled_in_every_list(delayed: Keyed) -> None:
    assert set(states(delayed, "due", DUE - 0.001).values()) == {"scheduled"}
    refused = delayed.refusal("queue.forget.empty", "queue", now=DUE - 1)
    assert refused.endswith("is in use: 2 scheduled")


def test_without_keys_get_shows_the_word_of_the_record(delayed: Keyed) -> None:
    assert json.loads(delayed.core.old("get", DUE + 1, "due"))["state"] == "scheduled"
    assert (
        delayed.core.json("queues", DUE + 1, "queue")["waiting"] == 1
    )  # which moves it
    assert json.loads(delayed.core.old("get", DUE + 1, "due"))["state"] == "waiting"
