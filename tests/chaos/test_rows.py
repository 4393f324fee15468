"""The rows of the long run in small numbers, and the counting itself."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from tests.chaos.report import Entry, written
from tests.chaos.row import ALL_POOLS
from tests.chaos.rows import ROWS
from tests.chaos.run import perform
from tests.chaos.tally import Tally
from tests.drawing import part
from tests.worker.runs import Counts, Runs, count, recorded, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.row import Row

# Each row once, by day every other one, the pools by turns: the long run takes all with all.
QUICK = part([row for row in ROWS.values() if row.quick], 2)
TAKEN = [
    (row, next(pool for pool in turns if pool in row.pools))
    for row, turns in zip(QUICK, [cycle(ALL_POOLS)] * len(QUICK), strict=True)
]


@pytest.mark.parametrize(
    ("row", "pool"), TAKEN, ids=[f"{row.name}-{pool}" for row, pool in TAKEN]
)
def test_the_promise_is_kept(row: Row, pool: str) -> None:
    entry = perform(row, pool, row.quick)
    assert entry.holds, "\n".join([*map(str, entry.tally.facts), entry.trouble])


class TestCounting:
    @pytest.fixture
    def runs(self, tmp_path: Path) -> Runs:
        return Runs(tmp_path / "runs")

    def test_what_is_as_it_should_be(self, runs: Runs) -> None:
        for name in "ab":
            with recorded(runs.path, name):
                pass
        assert count("ab", runs.all()) == Counts(2, 0, 0, 0, 0, 0)

    def test_a_job_that_never_ended_is_lost(self, runs: Runs) -> None:
        write(runs.path, "start", "a", "1.1", 1)
        assert count("ab", runs.all()).lost == 2

    def test_a_job_that_nobody_has_put_is_unexpected(self, runs: Runs) -> None:
        write(runs.path, "start", "c", "1.1", 1)
        assert count("", runs.all()).unexpected == 1

    def test_a_run_after_one_that_ended_is_repeated(self, runs: Runs) -> None:
        for _ in range(3):
            with recorded(runs.path, "a"):
                pass
        assert count("a", runs.all()) == Counts(1, 0, 0, 2, 0, 0)

    def test_a_run_after_one_that_was_cut_short_is_a_recovery(self, runs: Runs) -> None:
        write(runs.path, "start", "a", "1.1", 1)
        with pytest.raises(KeyError), recorded(runs.path, "a"):
            raise KeyError
        with recorded(runs.path, "a"):
            pass
        assert count("a", runs.all()) == Counts(1, 0, 0, 0, 1, 0)
        assert [run.left for run in runs.all()] == ["", "KeyError", ""]

    def test_two_runs_at_the_same_time_overlap(self, runs: Runs) -> None:
        for line in (
            ("start", "a", "1.1", 1),
            ("start", "a", "2.1", 2),
            ("end", "a", "1.1", 3),
            ("end", "a", "2.1", 4),
            ("start", "a", "1.2", 5),
            ("end", "a", "1.2", 6),
        ):
            write(runs.path, *line)
        assert count("a", runs.all()) == Counts(1, 0, 0, 2, 0, 1)
        assert runs.at_once() == 2

    def test_half_a_line_waits_for_its_end(self, runs: Runs, tmp_path: Path) -> None:
        with (tmp_path / "runs").open("a") as file:
            file.write("start a 1.1")
            file.flush()
            assert runs.all() == []
            file.write(" 7\n")
        assert [run.start for run in runs.all()] == [7e-9]


class TestReporting:
    def test_a_row_without_requirements_proves_nothing(self) -> None:
        tally = Tally()
        tally.note("kills", 5)
        assert not tally.holds

    def test_one_broken_figure_breaks_the_row(self) -> None:
        tally = Tally()
        tally.exactly("lost", 0, 0)
        assert tally.holds
        tally.at_most("repeated", 3, 2)
        tally.at_least("ticks", 1, 2)
        assert [fact.what for fact in tally.broken] == ["repeated", "ticks"]

    def test_the_report_says_what_was_broken(self) -> None:
        tally = Tally()
        tally.exactly("lost", 7, 0)
        report = written([Entry(QUICK[0], "fork", 3, tally, 1.0, "Trace…")], "Valkey 9")
        assert "lost: 7 (required: 0) — BROKEN" in report
        assert "1 rows, 1 broken" in report
        assert "Trace…" in report
