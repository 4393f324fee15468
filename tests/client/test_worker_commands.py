"""Commands of those who hold jobs, once there and back."""

from __future__ import annotations

import pytest

from django_qless.core import (
    BadArgument,
    Client,
    JobNotFound,
    LockLost,
    Settlement,
    WorkerNotFound,
)
from tests.client.conftest import NOW
from tests.client.jobs import Clock, pop, put


def test_pop_and_peek(client: Client, at: Clock) -> None:
    at(0)
    assert client.peek("mail") == client.pop("mail", "worker") == []
    for jid in "ab":
        put(client, jid, priority=ord(jid))
    assert [job.jid for job in client.peek("mail", 5)] == ["b", "a"]
    (job,) = client.pop("mail", "worker")
    assert (job.jid, job.state, job.worker) == ("b", "running", "worker")
    assert job.token
    assert job.expires == NOW + 60


def test_settle_hands_out_jobs(client: Client, at: Clock) -> None:
    at(0)
    client.put(
        "",
        "mail",
        "job",
        "app.send",
        '{"a":"ä"}',
        priority=3,
        retries=2,
        tags=["x", "y"],
        context='{"locale":"de"}',
    )
    put(client, "plain")
    answer = client.settle("worker", [], 5, ["nothing", "mail"])
    assert answer.refused == []
    assert (answer.wait_seconds, list(answer.wait_keys)) == (None, [])
    job, plain = answer.jobs
    assert job[:4] == ("job", "mail", "app.send", '{"a":"ä"}')
    assert (job.retries, job.remaining, job.priority) == (2, 2, 3)
    assert job.tag_list == ["x", "y"]
    assert job.context_object == {"locale": "de"}
    assert job.expires == NOW + 60
    assert (plain.tag_list, plain.context_object) == ([], {})
    assert int(plain.token) > int(job.token)


VERBS = [
    (("complete", ()), "complete", ""),
    (("complete", ("[1]", 60)), "complete", ""),
    (("complete", ("[1]", 60, '"new"')), "complete", ""),
    (("fail", ("oops", "traceback")), "failed", "mail"),
    (("retry", (0, "oops", "traceback")), "waiting", "mail"),
    (("retry", (9, "oops", "traceback")), "scheduled", "mail"),
    (("release", (0,)), "waiting", "mail"),
    (("release", (1.5,)), "scheduled", "mail"),
    (("unknown", (600,)), "scheduled", "mail"),
    (("crash", (3, "worker-crash", "signal 9")), "waiting", "mail"),
    (("crash", (0, "worker-crash", "signal 9")), "failed", "mail"),
    (("move", ("bulk", 0)), "waiting", "bulk"),
    (("move", ("bulk", 5)), "scheduled", "bulk"),
    (("move", ("bulk", 0, '["other"]')), "depends", "bulk"),
]


@pytest.mark.parametrize(("settlement", "state", "queue"), VERBS)
def test_settle_ends_jobs(
    client: Client,
    settlement: tuple[str, tuple[str | float, ...]],
    state: str,
    queue: str,
) -> None:
    put(client, "other", delay=900)
    put(client)
    answer = client.settle("worker", [Settlement(*pop(client), *settlement)], 0, [])
    assert answer[:4] == ([], [], None, ())
    job = client.get("job")
    assert job is not None
    assert (job.state, job.queue) == (state, queue)
    assert (client.result("job") == [1]) == (settlement[1][:1] == ("[1]",))
    assert (job.data == '"new"') == (settlement[1][2:] == ('"new"',))


def test_settle_refuses_each_stale_settlement_by_itself(client: Client) -> None:
    for jid in "ab":
        put(client, jid)
    a, b = client.settle("worker", [], 2, ["mail"]).jobs
    answer = client.settle(
        "worker",
        [
            Settlement(a.jid, "999", "complete"),
            Settlement("gone", "1", "fail", ("group", "message")),
            Settlement(b.jid, b.token, "complete"),
        ],
        0,
        [],
    )
    assert [(refused.jid, refused.code) for refused in answer.refused] == [
        (a.jid, "LOCKLOST"),
        ("gone", "NOJOB"),
    ]
    assert isinstance(answer.refused[0].error, LockLost)
    assert isinstance(answer.refused[1].error, JobNotFound)
    assert client.completed() == [b.jid]


def test_settle_takes_patterns_and_leaves_out_what_is_excluded(client: Client) -> None:
    for queue in ("mail", "bulk-1", "bulk-2", "other"):
        client.put("", queue, queue, "app.send", "{}")
    taken = client.settle("worker", [], 9, ["bulk-*", "*"], ["other", "bulk-2"]).jobs
    assert [job.queue for job in taken] == ["bulk-1", "mail"]


@pytest.mark.parametrize("queue", ["mail", "q" * 255])
def test_settle_tells_a_worker_without_jobs_where_to_wait(
    client: Client, queue: str
) -> None:
    answer = client.settle("worker", [], 1, [queue], wait=3)
    assert answer.wait_seconds is not None
    assert 0 < answer.wait_seconds <= 5
    assert answer.wait_keys
    client.put("", queue, "job", "k", "{}")
    woken = client.bzpopmin(answer.wait_keys, answer.wait_seconds)
    assert woken is not None
    assert woken[0] in answer.wait_keys
    assert client.bzpopmin(answer.wait_keys, 0.01) is None


def test_beat_prolongs_all_locks(client: Client, at: Clock) -> None:
    at(0)
    for jid in "ab":
        put(client, jid)
    a, b = client.settle("worker", [], 2, ["mail"]).jobs
    at(30)
    held = [(a.jid, a.token), (b.jid, "999"), ("gone", "1")]
    answer = client.beat("worker", '{"pid": 7}', held)
    assert sorted(answer.lost) == sorted([b.jid, "gone"])
    assert answer.orders == []
    assert [client.get(jid).expires for jid in (a.jid, b.jid)] == [NOW + 90, NOW + 60]
    (worker,) = client.workers()
    assert (worker.name, worker.beat, worker.info) == ("worker", NOW + 30, {"pid": 7})
    assert client.beat("worker", "", []).lost == []


def test_orders_come_with_a_beat_and_once(client: Client) -> None:
    client.beat("worker", "{}", [])
    client.order("worker", "quiet")
    client.order("worker", "stop")
    assert client.beat("worker", "", []).orders == ["quiet", "stop"]
    assert client.beat("worker", "", []).orders == []
    with pytest.raises(WorkerNotFound, match="nobody"):
        client.order("nobody", "stop")
    with pytest.raises(BadArgument, match="one of quiet, resume, stop, not 'go'"):
        client.order("worker", "go")  # type: ignore[arg-type]


def test_an_order_is_told_once_however_many_jobs_are_held(client: Client) -> None:
    client.beat("worker", "", [])
    client.order("worker", "stop")
    held = [(str(number), "1") for number in range(2500)]
    answer = client.beat("worker", "", held)
    assert (len(answer.lost), answer.orders) == (2500, ["stop"])


def test_an_order_is_heard_at_once(client: Client) -> None:
    client.beat("worker", "", [])
    with client.events("w:worker") as events:
        client.order("worker", "quiet")
        event = events.next(10)
    assert event is not None
    assert (event.event, event.channel) == ("order", "w:worker")
    assert event.details["order"] == "quiet"


def test_heartbeat_complete_and_result(client: Client, at: Clock) -> None:
    at(0)
    put(client)
    jid, token = pop(client)
    at(10)
    assert client.heartbeat(jid, token) == NOW + 70
    assert client.heartbeat(jid, token, '"kept"') == NOW + 70
    assert client.get(jid).data == '"kept"'
    with pytest.raises(LockLost):
        client.heartbeat(jid, "999")
    assert client.result(jid) is None
    state = client.complete(
        jid, token, "mail", "[1]", result='{"sum":3}', result_ttl=60
    )
    assert state == "complete"
    assert client.result(jid) == {"sum": 3}
    assert client.completed() == [jid]


def test_complete_goes_on_in_another_queue(client: Client) -> None:
    put(client)
    jid, token = pop(client)
    assert (
        client.complete(jid, token, "mail", "{}", next="bulk", delay=5) == "scheduled"
    )
    assert client.jobs("scheduled", "bulk") == [jid]


def test_fail_and_unfail(client: Client, at: Clock) -> None:
    at(0)
    put(client)
    jid, token = pop(client)
    assert client.fail(jid, token, "oops", "it broke", '"why"') == jid
    job = client.get(jid)
    assert job is not None
    assert job.failure == ("oops", "it broke", NOW, "worker")
    assert job.data == '"why"'
    assert client.failed() == {"oops": 1}
    assert client.failed_jobs("oops") == (1, [jid])
    assert client.failed_jobs("nothing") == (0, [])
    assert client.unfail("bulk", "oops", 5) == 1
    assert client.failed() == {}
    assert client.get(jid).queue == "bulk"


def test_retry_counts_down_and_fails(client: Client) -> None:
    put(client, retries=1)
    jid, token = pop(client)
    assert client.retry(jid, "mail", token, 0, "oops", "it broke") == 0
    jid, token = pop(client)
    assert client.retry(jid, "mail", token) == -1
    assert client.failed() == {"failed-retries-mail": 1}


def test_release_gives_back(client: Client) -> None:
    put(client, retries=1)
    client.release(*pop(client))
    job = client.get("job")
    assert job is not None
    assert (job.state, job.remaining) == ("waiting", 1)
    client.release(*pop(client), 5)
    assert client.jobs("scheduled", "mail") == ["job"]


def test_progress_and_log(client: Client, at: Clock) -> None:
    at(0)
    put(client)
    client.progress(*pop(client), 0.25, "ein Viertel „so“")
    client.log("job", "fetched", '{"bytes": 812}')
    client.log("job", "done")
    job = client.get("job")
    assert job is not None
    assert job.progress == (0.25, "ein Viertel „so“")
    assert job.history[-2:] == (
        {"what": "fetched", "when": NOW, "bytes": 812},
        {"what": "done", "when": NOW},
    )


def test_timeout_takes_a_job_away(client: Client) -> None:
    put(client)
    jid, token = pop(client)
    client.timeout(jid)
    assert client.get(jid).state == "waiting"
    with pytest.raises(LockLost):
        client.heartbeat(jid, token)
