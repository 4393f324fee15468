"""Slots that move and primaries that die, under load: nothing acknowledged is lost.

A small form is here; QLESS_ALL_CELLS=1 runs the whole one, on each kind of server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drawing import ALL
from tests.real_servers import available_kinds
from tests.six_nodes.run import Trouble, complaints, under_load

SMALL = [("valkey", Trouble(reshards=1, failovers=1))]
WHOLE = [
    *((kind, Trouble(10, 5, jobs=20_000)) for kind in available_kinds()),
    ("valkey", Trouble(3, 3, jobs=6_000, hang=True)),
    # How many are lost without it is told, and not required.
    ("valkey", Trouble(10, 5, jobs=20_000, replicas=0)),
]


@pytest.mark.parametrize(("kind", "trouble"), WHOLE if ALL else SMALL, ids=str)
def test_slots_that_move_and_primaries_that_die(
    tmp_path: Path, kind: str, trouble: Trouble
) -> None:
    outcome = under_load(tmp_path, kind, trouble)
    print(f"{kind}, {trouble}\n{outcome}")
    assert not complaints(outcome, trouble), outcome
    assert len(outcome.failovers) == trouble.failovers
    assert outcome.acknowledged >= trouble.jobs
    assert outcome.ticks
    assert outcome.waited
