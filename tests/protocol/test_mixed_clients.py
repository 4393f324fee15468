"""Old clients and ours on one namespace."""

from __future__ import annotations

from tests.core.keyed import Keyed


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
