"""The defects of qless-core in bookkeeping that this core does not have: one test each."""

from __future__ import annotations

import pytest

from tests.core.caller import Core


@pytest.mark.parametrize("way", ["put", "unfail", "cancel"])
def test_the_number_of_failed_jobs_is_lowered_where_it_was_raised(
    core: Core, way: str
) -> None:
    core.put("jid")
    core.pop(0)
    core.old("fail", 5, "jid", "worker", "group", "message")
    if way == "put":
        core.put("jid", 90000, queue="other")
    elif way == "unfail":
        core.old("unfail", 90000, "other", "group")
    else:
        core.old("cancel", 90000, "jid")
    assert core.json("stats", 90000, "queue", 0)["failed"] == 0
    assert core.json("stats", 90000, "queue", 0)["failures"] == 1
    for day in (0, 90000):
        assert core.json("stats", 90000, "other", day)["failed"] == 0


@pytest.mark.parametrize("data", ["[]", '{"n": 12345678901234567}', "[1.0, []]", '""'])
@pytest.mark.parametrize("command", ["heartbeat", "fail", "complete"])
def test_data_is_never_encoded_again(core: Core, command: str, data: str) -> None:
    core.put("jid")
    core.pop()
    if command == "heartbeat":
        core.old("heartbeat", 0, "jid", "worker", data)
    elif command == "fail":
        core.old("fail", 0, "jid", "worker", "group", "message", data)
    else:
        core.complete("jid", data=data)
    assert core.job("jid")["data"] == data


def test_a_changed_priority_keeps_the_order_among_equals(core: Core) -> None:
    for now, jid in enumerate(("first", "second", "third"), start=1400000000):
        core.put(jid, now)
    core.old("priority", 1400000009, "third", 5)
    core.old("priority", 1400000009, "first", 5)
    assert core.popped(1400000010) == ["first", "third", "second"]


def test_clocks_that_disagree_do_not_make_negative_samples(core: Core) -> None:
    core.put("jid", 1000)
    core.pop(900)
    core.complete("jid", 800)
    stats = core.json("stats", 1000, "queue", 0)
    for sample in ("wait", "run"):
        assert (stats[sample]["count"], stats[sample]["mean"]) == (1, 0)
        assert stats[sample]["histogram"][0] == 1


@pytest.mark.parametrize(
    "read", [("queues", "queue"), ("queues",), ("jobs", "scheduled", "queue")],
    ids=" ".join,
)  # fmt: skip
def test_a_read_moves_a_bounded_number_of_due_jobs(
    core: Core, read: tuple[str, ...]
) -> None:
    total, moved = 2500, 0
    pipe = core.server.pipeline(transaction=False)
    for number in range(total):
        job = ("w", "queue", f"j{number}", "k", "{}", 1)
        pipe.evalsha(core.library.sha, 0, "put", 0, *job)
    pipe.execute()
    for _ in range(10):
        core.old(read[0], 100, *read[1:])
        now_moved = core.server.zcard("ql:q:queue-work")
        assert now_moved - moved <= 1000
        moved = now_moved
    assert moved + core.server.zcard("ql:q:queue-scheduled") == total
