"""get, multiget and the history."""

from __future__ import annotations

import pytest

from tests.core.caller import Core


def test_get_of_a_missing_job_is_null(core: Core) -> None:
    assert core.old("get", 0, "jid") is None


def test_multiget_keeps_the_order_and_skips_the_missing(core: Core) -> None:
    for jid in "abc":
        core.put(jid)
    jobs = core.json("multiget", 0, "c", "nosuch", "a", "c")
    assert [job["jid"] for job in jobs] == ["c", "a", "c"]
    assert jobs[1] == core.job("a")
    assert core.old("multiget", 0) == "{}"


def test_the_history_tells_of_each_event(core: Core) -> None:
    core.put("jid", 1.9)
    core.pop(2.9)
    core.old("log", 3.9, "jid", "hello", '{"a": 1}')
    core.complete("jid", 4.9)
    assert core.job("jid")["history"] == [
        {"when": 1, "what": "put", "q": "queue"},
        {"when": 2, "what": "popped", "worker": "worker"},
        {"when": 3, "what": "hello", "a": 1},
        {"when": 4, "what": "done"},
    ]


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        (None, [0, *range(51, 150)]),
        (5, [0, 146, 147, 148, 149]),
        (2, list(range(150))),  # (quirk)
        (0, list(range(150))),
        (-1, list(range(150))),
    ],
)
def test_the_history_is_trimmed_to_the_first_and_the_newest(
    core: Core, limit: int | None, kept: list[int]
) -> None:
    if limit is not None:
        core.old("config.set", 0, "max-job-history", limit)
    for now in range(150):
        core.put("jid", now)
    assert [entry["when"] for entry in core.job("jid")["history"]] == kept
