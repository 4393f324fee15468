"""pop and peek: order, locks handed out, what falls due, pauses and limits."""

from __future__ import annotations

from tests.core.caller import Core, listed
from tests.core.keyspace import scores


def peeked(core: Core, now: float, count: int = 10) -> list[str]:
    return [job["jid"] for job in listed(core.json("peek", now, "queue", count))]


def test_pop_hands_out_a_job(core: Core) -> None:
    core.put("jid", 5)
    [job] = core.pop(10)
    assert job == core.job("jid")
    assert (job["state"], job["worker"], job["expires"]) == ("running", "worker", 70)
    assert float(core.server.hget("ql:j:jid", "time")) == 10
    assert core.server.zscore("ql:q:queue-locks", "jid") == 70
    assert core.server.zscore("ql:w:worker:jobs", "jid") == 70
    assert not core.server.exists("ql:q:queue-work")
    assert core.pop(10) == []


def test_ties_come_in_falling_order_of_jids(core: Core) -> None:
    for jid in "bdac":
        core.put(jid)
    assert core.popped() == ["d", "c", "b", "a"]


def test_the_score_is_priority_less_a_grain_of_time(core: Core) -> None:
    core.put("jid", 1400000000, priority=7)
    assert core.server.zscore("ql:q:queue-work", "jid") == 7 - 0.14


def test_pop_registers_the_worker_even_for_nothing(core: Core) -> None:
    core.pop(5)
    core.pop(3, worker="second")
    assert scores(core.server, "ql:workers") == [("second", 3), ("worker", 5)]
    core.pop(7)
    assert core.server.zscore("ql:workers", "worker") == 7


def test_a_paused_queue_pops_nothing_and_registers_no_worker(core: Core) -> None:
    core.put("jid")
    core.old("pause", 0, "queue")
    assert core.old("pop", 0, "queue", "worker", 10) == "{}"
    assert not core.server.exists("ql:workers")
    assert peeked(core, 0) == ["jid"]
    core.put("more")
    core.old("unpause", 0, "queue")
    assert core.popped() == ["more", "jid"]


def test_the_heartbeat_option_sets_the_lock(core: Core) -> None:
    core.put("a")
    core.old("config.set", 0, "heartbeat", 20)
    assert core.pop(100)[0]["expires"] == 120
    core.old("config.set", 0, "queue-heartbeat", 30)
    core.put("b")
    assert core.pop(100)[0]["expires"] == 130
    core.put("c", queue="other")
    assert core.pop(100, queue="other")[0]["expires"] == 120


def test_a_negative_heartbeat_expires_at_once(core: Core) -> None:
    core.old("config.set", 0, "heartbeat", -10)
    core.old("config.set", 0, "grace-period", 0)
    core.put("jid")
    assert core.pop(100)[0]["expires"] == 90
    [job] = core.pop(100, worker="second")
    assert (job["worker"], job["remaining"]) == ("second", 4)


def test_max_concurrency(core: Core) -> None:
    core.old("config.set", 0, "queue-max-concurrency", 2)
    for now, jid in enumerate("abcd"):
        core.put(jid, now)
    assert core.popped(5) == ["a", "b"]
    assert core.popped(5, worker="second") == []
    core.complete("a", 6)
    assert core.popped(6) == ["c"]
    core.old("fail", 7, "b", "worker", "group", "message")
    assert core.popped(7) == ["d"]


def test_lowering_max_concurrency_leaves_running_jobs_alone(core: Core) -> None:
    for now, jid in enumerate("abcd"):
        core.put(jid, now)
    core.popped(5, 3)
    core.old("config.set", 5, "queue-max-concurrency", 2)
    assert core.popped(5) == []
    core.complete("a", 6)
    assert core.popped(6) == []
    core.complete("b", 6)
    assert core.popped(6) == ["d"]


def test_an_expired_lock_does_not_count_as_running(core: Core) -> None:
    """One that ends now does: those with a score of now or later are counted."""
    core.old("config.set", 0, "queue-max-concurrency", 1)
    core.old("config.set", 0, "grace-period", 0)
    core.put("jid")
    core.pop(0)
    assert core.popped(60, worker="second") == []
    assert core.popped(61, worker="second") == ["jid"]


def test_a_due_job_takes_its_place_by_the_time_of_the_move(core: Core) -> None:
    core.put("delayed", 0, delay=10)
    core.put("plain", 15)
    assert core.popped(20) == ["plain", "delayed"]


def test_max_concurrency_of_zero_or_of_another_queue_is_no_limit(core: Core) -> None:
    core.old("config.set", 0, "queue-max-concurrency", 0)
    core.old("config.set", 0, "other-max-concurrency", 1)
    core.put("a")
    core.put("b")
    assert len(core.pop()) == 2


def test_peek_shows_without_handing_out(core: Core) -> None:
    for now, jid in enumerate("abc"):
        core.put(jid, now)
    assert peeked(core, 5, 2) == ["a", "b"]
    assert core.json("peek", 5, "queue", 1) == [core.job("a")]
    assert core.state("a") == "waiting"
    assert core.old("peek", 5, "queue", 0) == "{}"
    assert not core.server.exists("ql:workers")


def test_peek_moves_what_is_due(core: Core) -> None:
    core.put("due", 0, delay=10)
    core.put("later", 0, delay=100)
    assert peeked(core, 9) == []
    assert core.state("due") == "scheduled"
    assert peeked(core, 10) == ["due"]
    assert core.state("due") == "waiting"
    assert core.state("later") == "scheduled"


def test_peek_spawns_recurring_jobs(core: Core) -> None:
    core.old("recur", 0, "queue", "cron", "klass", "{}", "interval", 60, 0)
    assert sorted(peeked(core, 60)) == ["cron-1", "cron-2"]


def test_peek_shows_expired_locks_first_and_as_they_are(core: Core) -> None:
    core.put("lost")
    core.pop(0)
    core.put("waiting", 1)
    assert peeked(core, 100) == ["lost", "waiting"]
    job = core.job("lost")
    assert (job["state"], job["worker"], job["expires"]) == ("running", "worker", 60)
    assert [entry["what"] for entry in job["history"]] == ["put", "popped"]
    assert peeked(core, 100, 1) == ["lost"]
