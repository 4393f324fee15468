"""The rows of the long run in small numbers."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from tests.chaos.row import ALL_POOLS
from tests.chaos.rows import ROWS
from tests.chaos.run import perform
from tests.drawing import part

if TYPE_CHECKING:
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
