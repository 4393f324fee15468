"""Attempts and phases, read from histories of all forms."""

from __future__ import annotations

from typing import Any

import pytest

from django_qless.core.attempts import Attempts, Phase, read_attempts

NOW = 1000.5

Entries = list[tuple[Any, ...]]


def entry(when: float, what: str, **more: Any) -> dict[str, Any]:
    return {"when": when, "what": what, **more}


def read(history: Entries, **said: Any) -> Attempts:
    """Read entries given as (when, what) or (when, what, members)."""
    entries = [
        entry(*given[:2], **(given[2] if given[2:] else {})) for given in history
    ]
    said = {"is_running": False, "now": NOW, **said}
    return read_attempts(entries, **said)


def phases(found: Attempts) -> list[tuple[str, float, float]]:
    assert all(not phase.is_open for phase in found.phases[:-1])
    return [(phase.kind, phase.start, phase.end) for phase in found.phases]


def told(found: Attempts) -> list[tuple[str, float | None, float | None]]:
    """Return how each attempt ended, how long the job waited before, and how long it ran."""
    return [
        (
            each.end,
            each.waiting.seconds if each.waiting else None,
            each.running.seconds if each.running else None,
        )
        for each in found.attempts
    ]


PUT = (1.5, "put", {"q": "mail"})
POPPED = (3.5, "popped", {"worker": "w"})


@pytest.mark.parametrize(
    ("end", "after"),
    [
        ("done", None),
        ("failed", None),
        ("retried", "waiting"),
        ("returned", "waiting"),
        ("crashed", "waiting"),
        ("lost", "waiting"),
    ],
)
def test_each_end(end: str, after: str | None) -> None:
    found = read(
        [PUT, POPPED, (7.25, end, {"worker": "w", "group": "g", "message": "m"})]
    )
    assert told(found) == [(end, 2, 3.75)]
    [attempt] = found.attempts
    assert (attempt.worker, attempt.group, attempt.message) == ("w", "g", "m")
    assert (attempt.handed, attempt.started, attempt.ended) == (3.5, 3.5, 7.25)
    rest = [(after, 7.25, NOW)] if after else []
    assert phases(found) == [("waiting", 1.5, 3.5), ("running", 3.5, 7.25), *rest]
    assert found.phases[-1].is_open == bool(after)
    assert all(phase.is_exact for phase in found.phases)


def test_raised_twice_and_then_done() -> None:
    retried = {"worker": "w", "group": "g", "message": "m"}
    found = read(
        [
            PUT,
            POPPED,
            (3.75, "retried", {**retried, "until": 8.75}),
            (9, "popped", {"worker": "x"}),
            (9.25, "retried", {**retried, "until": 19.25}),
            (20, "popped", {"worker": "w"}),
            (20.25, "done"),
        ]
    )
    assert told(found) == [
        ("retried", 2, 0.25),
        ("retried", 5.25, 0.25),
        ("done", 10.75, 0.25),
    ]
    words = [(each.worker, each.group, each.message) for each in found.attempts]
    assert words == [("w", "g", "m"), ("x", "g", "m"), ("w", "", "")]
    assert [each.until for each in found.attempts] == [8.75, 19.25, None]


def test_what_lay_in_the_hands_of_its_worker_waited() -> None:
    found = read([PUT, POPPED, (7.5, "done", {"held": 3.25})])
    assert told(found) == [("done", 5.25, 0.75)]
    assert found.attempts[0].started == 6.75
    found = read([PUT, POPPED, (7.5, "done", {"held": 99})])
    assert told(found) == [("done", 6, 0)]


def test_what_was_handed_back_has_run_if_it_says_since_when() -> None:
    again = [(9.5, "popped", {"worker": "x"}), (9.75, "done")]
    found = read([PUT, POPPED, (7.5, "returned", {"worker": "w"}), *again])
    assert told(found) == [("returned", 6, None), ("done", 2, 0.25)]
    assert [each.started for each in found.attempts] == [3.5, 9.5]
    waits = [("waiting", 1.5, 7.5), ("waiting", 7.5, 9.5)]
    assert phases(found) == [*waits, ("running", 9.5, 9.75)]
    found = read([PUT, POPPED, (7.5, "returned", {"worker": "w", "held": 0.0}), *again])
    assert told(found) == [("returned", 2, 4), ("done", 2, 0.25)]
    # Its wait is the last one.
    found = read(
        [PUT, POPPED, (5.5, "retried"), (6, "popped"), (9, "returned"), *again]
    )
    assert told(found)[:2] == [("retried", 2, 2), ("returned", 3.5, None)]
    # It ran, and its end is not known.
    found = read([PUT, POPPED, (7.5, "returned", {"group": "g"}), *again])
    assert told(found) == [("returned", 2, 4), ("done", 2, 0.25)]


@pytest.mark.parametrize(
    ("end", "members", "begun"),
    [
        ("returned", {"worker": "w"}, False),
        ("returned", {"worker": "w", "held": 1}, True),
        ("done", {}, True),
        ("put", {}, True),
    ],
)
def test_whether_its_worker_had_begun_with_it(
    end: str, members: dict[str, Any], begun: bool
) -> None:
    [attempt] = read([PUT, POPPED, (7.5, end, members)]).attempts
    assert (attempt.end, attempt.has_begun) == (end, begun)


def test_one_whose_start_is_not_known_has_begun_all_the_same() -> None:
    first, second = read([PUT, POPPED, (9.5, "popped")], is_running=True).attempts
    assert (first.running, first.has_begun, second.has_begun) == (None, True, True)
    assert (first.worker, second.worker) == ("w", "")


def test_a_cancellation_ends_the_attempt_and_a_word_of_the_job_does_not() -> None:
    found = read([PUT, POPPED, (7.5, "canceled", {"was": "running"})])
    assert told(found) == [("canceled", 2, 4)]
    assert phases(found) == [("waiting", 1.5, 3.5), ("running", 3.5, 7.5)]
    found = read([PUT, POPPED, (7.5, "canceled"), (8.5, "done")])
    assert told(found) == [("done", 2, 5)]


@pytest.mark.parametrize(
    ("start", "end", "exact"),
    [(1.5, 2.5, True), (1, 2.5, False), (1.5, 2, False), (1, 2, False)],
)
def test_a_time_in_whole_seconds_is_not_exact(
    start: float, end: float, exact: bool
) -> None:
    assert Phase("waiting", float(start), float(end)).is_exact is exact


def test_one_that_runs() -> None:
    found = read([PUT, POPPED], is_running=True)
    assert told(found) == [("", 2, NOW - 3.5)]
    assert found.phases[-1].is_open
    # It has notice that its lock is lost, and may still end it.
    found = read([PUT, POPPED, (60.5, "timed-out")], is_running=True)
    assert told(found) == [("", 2, NOW - 3.5)]


@pytest.mark.parametrize("end", ["done", "retried", "lost"])
def test_a_notice_ends_no_attempt_by_itself(end: str) -> None:
    found = read([PUT, POPPED, (60.5, "timed-out"), (66.5, end)])
    assert told(found) == [(end, 2, 63)]


@pytest.mark.parametrize(
    "history",
    [
        [],
        [(70.5, "popped"), (71.5, "done")],
        [(70.5, "put"), (72.5, "popped"), (73.5, "done")],
        [(70.5, "failed", {"group": "expired"})],
    ],
)
def test_one_that_was_taken_from_its_worker_waits(history: Entries) -> None:
    found = read([PUT, POPPED, (60.5, "timed-out"), *history])
    first, *more = told(found)
    assert first == ("timed-out", 2, 57)
    assert phases(found)[1:3] == [
        ("running", 3.5, 60.5),
        ("waiting", 60.5, 70.5 if len(history) in (1, 2) else 72.5 if more else NOW),
    ]


def test_a_run_that_was_lost_for_good_in_calls_without_keys() -> None:
    more = {"group": "failed-retries-mail"}
    found = read([PUT, POPPED, (60, "timed-out"), (70, "failed", more)])
    assert told(found) == [("failed", 2, 66.5)]
    assert found.attempts[0].group == "failed-retries-mail"


def test_a_job_that_was_put_again_while_it_ran() -> None:
    found = read([PUT, POPPED, (7.5, "put"), (9.5, "popped"), (11.5, "done")])
    assert told(found) == [("put", 2, 4), ("done", 2, 2)]


def test_a_job_that_failed_before_it_ran() -> None:
    found = read([PUT, (7.5, "failed", {"group": "expired"}), (9.5, "put")])
    assert told(found) == []
    assert phases(found) == [
        ("waiting", 1.5, 7.5),
        ("failed", 7.5, 9.5),
        ("waiting", 9.5, NOW),
    ]


def test_what_is_complete_does_nothing_until_it_is_put_again() -> None:
    found = read([PUT, POPPED, (4.5, "done"), (9.5, "put")])
    assert [phase.kind for phase in found.phases] == ["waiting", "running", "waiting"]
    assert found.phases[-1].start == 9.5


def test_words_of_jobs_are_no_ends() -> None:
    found = read([PUT, POPPED, (4.5, "fetched"), (5.5, "raised"), (6.5, "done")])
    assert told(found) == [("done", 2, 3)]


def test_earlier_versions_wrote_nothing_of_a_retry() -> None:
    whole: Entries = [(0, "put"), (10, "popped"), (70, "popped"), (190, "failed")]
    found = read(whole)
    assert told(found) == [("not-recorded", 10, None), ("failed", None, 120)]
    assert phases(found) == [
        ("waiting", 0, 10),
        ("unknown", 10, 70),
        ("running", 70, 190),
    ]
    assert not any(phase.is_exact for phase in found.phases)


@pytest.mark.parametrize(
    ("said", "first", "last"),
    [
        # The failure that is kept says when; else the record, if it was written then.
        ({"failed": 12, "since": 70.5}, ("not-recorded", 10, 2), ("waiting", 12, NOW)),
        ({"failed": 10, "since": 10.5}, ("not-recorded", 10, 0), ("waiting", 10, NOW)),
        ({"failed": 2, "since": 70.5}, ("not-recorded", 10, 60.5), ("waiting", 70.5, NOW)),
        ({"since": 10.75}, ("not-recorded", 10, None), ("unknown", 10, NOW)),
        ({}, ("not-recorded", 10, None), ("unknown", 10, NOW)),
    ],
)  # fmt: skip
def test_the_record_tells_of_the_last_retry_of_earlier_versions(
    said: Any, first: Any, last: Any
) -> None:
    found = read([(0, "put"), (10, "popped")], **said)
    assert told(found) == [first]
    assert phases(found)[-1] == last
    assert found.phases[-1].is_open


def test_where_entries_are_left_out_nothing_is_known() -> None:
    found = read([PUT, (50.5, "retried"), (60.5, "popped"), (61.5, "done")], missing=7)
    assert told(found) == [("done", 10, 1)]
    assert phases(found)[0] == ("unknown", 1.5, 50.5)
    found = read([PUT, (60.5, "popped"), (61.5, "done")], missing=7)
    assert told(found) == [("done", None, 1)]


def test_time_does_not_go_back() -> None:
    found = read(
        [(5.5, "put"), (5, "popped"), (4, "retried"), (3, "popped"), (9, "done")]
    )
    assert told(found) == [("retried", 0, 0), ("done", 0, 3.5)]
    # (A wait that took no time is left out.)
    assert phases(found) == [("running", 5.5, 5.5), ("running", 5.5, 9)]


@pytest.mark.parametrize(
    "history",
    [
        [],
        [("x", "put"), (None, "popped"), (2, None)],
        [(1, "done"), (2, "retried"), (3, "timed-out"), (4, "lost")],
        [PUT, POPPED, (4.5, "done", {"held": "x", "until": [], "group": 7})],
    ],
)
def test_what_makes_no_sense_is_read_all_the_same(history: Entries) -> None:
    for is_running in (False, True):
        found = read(history, is_running=is_running, missing=len(history) % 2)
        assert all(phase.seconds >= 0 for phase in found.phases)
