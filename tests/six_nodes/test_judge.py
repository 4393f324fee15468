"""What is said of recorded runs: a judge that finds nothing would prove nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clusters import Cluster
from tests.six_nodes import judge
from tests.six_nodes.judge import HELD, Elections, Failover, Outcome
from tests.six_nodes.records import Acknowledgements, Ledger
from tests.six_nodes.run import WITHIN, Trouble, complaints

FAILOVER = Failover(("mail",), failed=10, promoted=12, over=12, wait=1)
KNOWN = Elections([FAILOVER], [])

GOOD = Outcome(
    acknowledged=1,
    failovers=[FAILOVER],
    unplanned=0,
    moves=[],
    refused={},
    lost=[],
    again=["a"],
)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger")
    yield ledger
    ledger.close()


def take(ledger: Ledger, *runs: str) -> Ledger:
    for run in runs:
        ledger.take(*run.split())
    return ledger


@pytest.mark.parametrize(
    ("second", "known", "is_explained"),
    [
        ("mail 1 13", KNOWN, True),
        ("mail 1 9.5", KNOWN, False),
        ("orders 1 13", KNOWN, False),
        ("orders 1 13", Elections([], [11.5]), True),
        ("mail 1 13", Elections([], []), False),
        # What a worker had reserved before, and what a primary that hung has acknowledged.
        ("mail 1 13", Elections([replace(FAILOVER, over=9 - HELD + 1)], []), True),
        ("mail 1 13", Elections([replace(FAILOVER, over=9 - HELD)], []), False),
    ],
)
def test_a_second_run_needs_a_failover_of_its_primary(
    ledger: Ledger, second: str, known: Elections, is_explained: bool
) -> None:
    queue = second.split()[0]
    # Of two processes, whose lines came in the wrong order.
    take(ledger, f"a {second}", f"a {queue} 1 9", "b mail 1 9")
    expected = (["a"], []) if is_explained else ([], ["a"])
    assert judge.repeated(ledger, known) == expected


def test_ticks_that_were_left_out(ledger: Ledger) -> None:
    numbers = (number for number in range(1, 21) if number not in (7, 18))
    take(ledger, *(f"tick-mail-{number} mail 1 1" for number in numbers))
    # The last ones may be on their way when the workers end.
    assert judge.ticks(ledger) == (18, ["tick-mail-7"])


def test_all_must_consume_again(ledger: Ledger) -> None:
    consumers = {("mail", "1"), ("mail", "2")}
    take(ledger, "a mail 1 11.5", "b mail 1 13", "c mail 1 14", "d orders 2 14")
    assert ledger.waits_since(12, consumers) == {}
    take(ledger, "e mail 2 15")
    assert ledger.waits_since(12, consumers) == {("mail", "1"): 1, ("mail", "2"): 3}


def test_lines_are_read_when_they_are_whole(ledger: Ledger, tmp_path: Path) -> None:
    with (tmp_path / "ledger").open("a") as file:
        for text, names in (("a mail 1 1\nb ma", {"a"}), ("il 1 1\n", {"a", "b"})):
            file.write(text)
            file.flush()
            ledger.read()
            assert ledger.names == names


def test_what_producers_say(tmp_path: Path) -> None:
    said = Acknowledgements(tmp_path / "said")
    for line in (
        *("ok a mail", "ok b orders", "refused mail NotReplicated"),
        *("waiting a", "waited a", "waiting b", "in-vain b JobGone", "waiting c"),
        *("waiting d", "broken d ServerBusy"),
    ):
        said.take(*line.split())
    assert said.names == {"a", "b"}
    assert said.of_queue == {"mail": 1, "orders": 1}
    assert said.refused == {"NotReplicated": 1, "ServerBusy": 1}
    assert (said.waited, said.in_vain, said.waiting) == (1, {"b": "JobGone"}, {"c"})
    said.close()


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (replace(GOOD, lost=["a"]), "lost"),
        (replace(GOOD, unexplained=["a"]), "again"),
        (replace(GOOD, left_out=["tick-mail-7"]), "left out"),
        (replace(GOOD, in_vain={"a": "JobGone"}), "in vain"),
        (replace(GOOD, failovers=[replace(FAILOVER, wait=WITHIN + 1)]), "too late"),
    ],
)
def test_what_is_not_as_it_must_be(outcome: Outcome, words: str) -> None:
    (complaint,) = complaints(outcome, Trouble(1, 1))
    assert words in complaint


def test_without_replicas_losses_are_only_told() -> None:
    assert complaints(GOOD, Trouble(1, 1)) == []
    assert complaints(replace(GOOD, lost=["a"]), Trouble(1, 1, replicas=0)) == []


def test_elections_are_found_in_the_logs_of_nodes() -> None:
    with Cluster(timeout=500) as cluster:
        killed = cluster.of("{ql}:")
        killed.kill()
        promoted = cluster.of("{ql}:")
        found = judge.elections(cluster.nodes, [])
        assert len(found.unplanned) == 1
        assert "Failover election won" in promoted.log
        moment = found.unplanned[0]
        known = Failover((), moment - 1, moment + 1, moment + 1, 0)
        assert judge.elections(cluster.nodes, [known]).unplanned == []
