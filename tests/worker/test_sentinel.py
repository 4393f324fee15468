"""A failover under load: nothing that a replica had is lost, all workers go on.

A small form is here; QLESS_ALL_CELLS=1 adds a primary that hangs instead of dying.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drawing import ALL
from tests.failover import WITHIN, fail_over_under_load


@pytest.mark.parametrize("with_signal", ["KILL", "STOP"] if ALL else ["KILL"])
def test_a_failover_under_load(tmp_path: Path, with_signal: str) -> None:
    outcome = fail_over_under_load(tmp_path, with_signal, "prefork")
    # Those that ran while the primary failed count as runs with the second.
    assert len(outcome.repeated) <= 4
    assert max(outcome.waits) <= WITHIN
