"""Slots that move and primaries that die, under load: nothing acknowledged is lost.

A small form is here; QLESS_ALL_CELLS=1 runs the whole one, on each kind of server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drawing import ALL
from tests.real_servers import available_kinds
from tests.resharding import WITHIN, Trouble, trouble_under_load

SMALL = [("valkey", Trouble(reshards=1, failovers=1, jobs=0))]
WHOLE = [
    (kind, Trouble(reshards=10, failovers=5, jobs=20_000)) for kind in available_kinds()
]


@pytest.mark.parametrize(("kind", "trouble"), WHOLE if ALL else SMALL)
def test_slots_that_move_and_primaries_that_die(
    tmp_path: Path, kind: str, trouble: Trouble
) -> None:
    outcome = trouble_under_load(tmp_path, kind, trouble)
    print(f"{kind}: {outcome}")
    assert len(outcome.waits) == trouble.failovers
    assert max(outcome.waits) <= WITHIN
    assert outcome.ticks
    # What ran in the last moment before a failover may have lost its end.
    assert outcome.repeated <= 5 * trouble.failovers
