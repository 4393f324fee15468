"""What the children of all pools that run jobs in themselves have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_qless.worker.execution import Execution
from django_qless.worker.pools.child_process import CRASHED
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.inside.executors import LoneChild

# pytest-xdist has threads, which the children here do not touch.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture(params=["prefork", "threads", "coroutines"])
def pool(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_a_job_that_gets_no_end_is_left_to_the_parent(
    start: Callable[..., LoneChild], pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock would be renewed for ever, and nobody would run it."""

    def fail(*args: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Execution, "conclude", fail)
    if pool == "coroutines":  # which makes an end of the first error
        monkeypatch.setattr(Execution, "raised", fail)
    child = start()
    child.has_defect = True
    child.put("give", 1)
    poll(child.process.watch, what="it gives up")
    assert child.wait() == CRASHED
    assert "child gives up" in child.output
    assert "RuntimeError: a defect" in child.output
    assert child.shared.held_jobs().running
