"""Single steps of a child that runs one job after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from django_qless.worker.pools.prefork import PreforkChild


@pytest.mark.parametrize("is_ending", [False, True])
def test_in_trouble_a_child_keeps_no_slot_from_others(*, is_ending: bool) -> None:
    """Its server may be away for long; other namespaces have servers of their own."""
    calls: list[str] = []

    def trouble(error: Exception) -> float:
        calls.append(str(error))
        return 0.0

    child: Any = SimpleNamespace(
        give_up_slot=lambda: calls.append("give up"),
        trouble=trouble,
        is_ending=is_ending,
        sleep=lambda wait: calls.append("sleep"),
    )
    PreforkChild.pause(child, OSError("away"))
    # Commands wake it, unless it ends anyway.
    assert calls == ["give up", "away", *([] if is_ending else ["sleep"])]
