"""Somebody who clicks, beside a worker that runs, for all files of this folder.

Each test has its own queue and jobs, named after it, so that they pass in any order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.admin.browser import conftest as browsers
from tests.admin.browser.operating import Operator
from tests.real_servers import poll

if TYPE_CHECKING:
    from typing import Any

    from django_qless.core import Client
    from tests.admin.browser.scene import Scene
    from tests.admin.browser.visitor import Visitor

WORKER = "live-worker"
HOLDS = "tests.admin.browser.live_app.jobs.holds"
TIDIES = "tests.admin.browser.live_app.jobs.tidies"
FAILING = "tests.jobs_app.jobs.failing"

Make = Callable[..., Operator]

# One site and one browser for all files.
scene = pytest.fixture(scope="package")(browsers.begun_scene)
browser = pytest.fixture(scope="package")(browsers.begun_browser)
logged_in = pytest.fixture(scope="package")(browsers.remembered)


@pytest.fixture(scope="session")
def done() -> set[str]:
    """The names of the routes whose actions were done, in all tests."""
    return set()


@pytest.fixture(scope="session")
def ran() -> set[str]:
    """The names of the tests that ran."""
    return set()


@pytest.fixture
def operator_with(
    scene: Scene,
    visit: Callable[..., Visitor],
    done: set[str],
    ran: set[str],
    request: pytest.FixtureRequest,
) -> Iterator[Make]:
    """Makes operators whose browsers have options; none may have seen a fault."""
    visitors = []
    own = re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")

    def make(**options: Any) -> Operator:
        visitor = visit(**options)
        visitors.append(visitor)
        return Operator(visitor, scene.client, done, own)

    yield make
    ran.add(request.node.originalname)
    faults = [fault for visitor in visitors for fault in visitor.faults]
    assert not faults, "\n".join(faults)


@pytest.fixture
def operator(operator_with: Make) -> Operator:
    """Somebody who may do everything."""
    return operator_with()


@pytest.fixture
def client(scene: Scene) -> Client:
    """What the test looks at the server with."""
    return scene.client


def state_of(client: Client, name: str) -> str | None:
    """Return the state in a worker's report, or None without one."""
    found = (each for each in client.workers() if each.name == name)
    worker = next(found, None)
    return worker and (worker.info or {}).get("state")


def wait_for_state(client: Client, name: str, state: str) -> None:
    poll(lambda: state_of(client, name) == state, what=f"{name} is {state}")


@pytest.fixture
def worker(scene: Scene) -> str:
    """The name of a worker that runs the live queue; another test may have ended it."""
    if scene.worker.poll() is not None:
        scene.start_worker()
    wait_for_state(scene.client, WORKER, "running")
    return WORKER


def completes(operator: Operator, jid: str) -> None:
    poll(lambda: operator.job(jid).state == "complete", what="the worker runs it")
