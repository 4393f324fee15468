"""Old clients and ours on one namespace."""

from __future__ import annotations

from tests.core.caller import Core
from tests.core.keyed import Keyed, settlement


def test_ours_takes_what_old_clients_put_and_the_other_way_round(keyed: Keyed) -> None:
    core = keyed.core
    core.put("old", 1, data='{"a": 1}', tags=["t"], priority=1)
    keyed.put("new", 2, data='{"b": 2}', tags=["t"])
    [job] = keyed.take(1, now=3)
    assert (job["jid"], job["data"]) == ("old", '{"a": 1}')
    [popped] = core.pop(3)
    assert (popped["jid"], popped["data"]) == ("new", '{"b": 2}')
    assert core.complete("new", 4) == "complete"
    assert (
        keyed.settle([settlement("old", job["token"], "complete")], now=4).refused == []
    )


def test_old_pops_draw_tokens_once_there_is_a_record(keyed: Keyed) -> None:
    keyed.put("first")
    first = keyed.token("first")
    keyed.core.put("second", 1)
    assert keyed.core.popped(2) == ["second"]
    second = keyed.job("second")["token"]
    assert int(second) > int(first)
    keyed.put("third", 3)
    assert int(keyed.token("third", 4)) > int(second)


def test_an_old_holder_may_finish_by_its_name(keyed: Keyed) -> None:
    keyed.put("a")
    keyed.put("b")
    assert sorted(keyed.core.popped(1)) == ["a", "b"]
    assert keyed.core.old("heartbeat", 5, "a", "worker") == 65
    assert keyed.core.complete("a", 6) == "complete"
    assert keyed.core.old("fail", 6, "b", "worker", "group", "message") == "b"


def test_an_old_worker_that_popped_a_job_twice_is_told_apart_by_ours(
    keyed: Keyed,
) -> None:
    keyed.put("jid")
    keyed.core.pop(1)
    stale = keyed.job("jid")["token"]
    keyed.core.old("retry", 2, "jid", "queue", "worker")
    keyed.core.pop(3)
    assert keyed.refusal("complete", "jid", stale, "queue", "{}", now=4).startswith(
        "LOCKLOST"
    )


def test_a_put_by_an_old_client_ends_a_token(keyed: Keyed) -> None:
    keyed.put("jid")
    token = keyed.token("jid")
    keyed.core.put("jid", 1, worker="stranger")
    assert keyed.refusal("heartbeat", "jid", token, now=2).startswith("LOCKLOST")
    keyed.core.pop(3, worker="old")
    assert keyed.refusal("complete", "jid", token, "queue", "{}", now=4).startswith(
        "LOCKLOST"
    )
    assert keyed.job("jid")["worker"] == "old"


def test_no_simple_token_opens_what_an_old_client_holds(core: Core) -> None:
    core.put("jid")
    core.pop()
    keyed = Keyed(core)
    keyed.put("other", 1)
    for token in ("", "0", "1", "worker"):
        text = keyed.refusal("complete", "jid", token, "queue", "{}", now=2)
        assert text.startswith("LOCKLOST")
    assert core.complete("jid", 3) == "complete"


def test_old_puts_wake_our_idle_workers(keyed: Keyed) -> None:
    _, *names = keyed.settle([], 1, worker="w", wait=60).rest
    keyed.core.put("jid", 1)
    assert keyed.is_woken(names)


def test_an_old_cancel_of_a_job_of_ours_leaves_its_record(keyed: Keyed) -> None:
    keyed.put("jid", context={"x": 1}, tags=["t"])
    keyed.token("jid")
    keyed.core.old("cancel", 1, "jid")
    assert keyed.core.old("get", 2, "jid") is None
    assert keyed.job("jid")["state"] == "canceled"


def test_old_clients_clocks_do_not_matter_to_ours(keyed: Keyed) -> None:
    """A put by a client whose clock is a day ahead is ready at once for ours."""
    seconds, _ = keyed.server.time()
    keyed.put("first", "*")
    keyed.core.put("ahead", seconds + 86400)
    keyed.core.put("behind", seconds - 86400)
    assert sorted(job["jid"] for job in keyed.take(now="*")) == [
        "ahead",
        "behind",
        "first",
    ]


def test_old_clients_do_not_bring_back_a_job_whose_unique_key_is_taken(
    keyed: Keyed,
) -> None:
    core = keyed.core
    keyed.put("a", unique="k")
    [job] = keyed.take(now=1)
    keyed.call("fail", "a", job["token"], "group", "message", now=2)
    keyed.put("b", 3, unique="k")
    assert core.old("unfail", 4, "queue", "group") == 0
    text = core.error("put", 5, "", "queue", "a", "klass", "{}", 0)
    assert "put(): The unique key k of job a belongs to job b, which is waiting" in text
    assert '"b"' not in text
    assert core.state("a") == "failed"
    core.old("cancel", 6, "b")
    assert core.old("unfail", 7, "queue", "group") == 1
