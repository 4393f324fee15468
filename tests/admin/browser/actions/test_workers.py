"""What is done to workers, by clicking: they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.admin.browser.actions.conftest import completes, wait_for_state
from tests.admin.browser.scene import LIVE_QUEUE

if TYPE_CHECKING:
    from django_qless.core import Client
    from tests.admin.browser.operating import Operator
    from tests.admin.browser.scene import Scene

pytestmark = pytest.mark.xdist_group("actions")


def test_one_worker(operator: Operator, client: Client, worker: str) -> None:
    """It takes no more jobs, and takes them again."""
    operator.go("worker")
    operator.page.get_by_role("link", name=worker, exact=True).click()
    operator.page.get_by_label("Refresh").select_option("every 2 s")
    operator.do("Quiet", told=f"Asked worker {worker} to take no more jobs.")
    wait_for_state(client, worker, "quiet")
    jid = operator.put("", LIVE_QUEUE)
    # The button changes by itself.
    operator.do("Resume", told=f"Asked worker {worker} to take jobs again.")
    completes(operator, jid)


def test_stopping_a_worker(operator: Operator, client: Client, scene: Scene) -> None:
    """It ends."""
    name = "to-be-stopped"
    process = scene.manage(
        *("qless_worker", operator.own, "--name", name, "--pool", "threads")
    )
    wait_for_state(client, name, "running")
    operator.go("worker", name)
    told = f"Asked worker {name} to stop."
    operator.do("Stop", "Stop", asks=f"Stop worker {name}?", told=told)
    assert process.wait(20) == 0


def test_forgetting_a_worker(operator: Operator, client: Client) -> None:
    """One that is silent is taken off the list."""
    client.beat("silent", "", [])
    now = float(client.meta()["now"])
    client.redis.zadd(f"{client.prefix}workers", {"silent": now - 600})
    operator.go("worker", "silent")
    told = "Removed worker silent from the list."
    operator.do("Forget", "Forget", asks="Remove worker silent", told=told)
    assert all(each.name != "silent" for each in client.workers())


def test_all_workers(
    operator: Operator, client: Client, scene: Scene, worker: str
) -> None:
    """All are quiet, are resumed, and end."""
    operator.go("worker")
    for button, asks, state in (
        ("Quiet all", "They take no more jobs", "quiet"),
        ("Resume all", "They take jobs again.", "running"),
        ("Stop all", "They stop;", None),
    ):
        operator.do(button, button, asks=asks, told=f": {button.lower()}.")
        if state is not None:
            wait_for_state(client, worker, state)
    assert scene.worker.wait(20) == 0
