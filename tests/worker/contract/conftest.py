"""One suite, four pools: each test is run by each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import drawing

POOLS = ("prefork", "fork", "threads", "coroutines")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave each test two pools by day: the default, and one drawn by the test's name."""
    if drawing.ALL:
        return
    here = Path(__file__).parent
    left_out = {each for each in items if here in each.path.parents and is_spared(each)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [each for each in items if each not in left_out]


def is_spared(test: pytest.Item) -> bool:
    """Return whether the test is for the night in its pool."""
    _, *others = POOLS
    name, _, rest = test.nodeid.partition("[")
    drawn = others[drawing.draw(name, len(others))]
    words = rest.rstrip("]").split("-")
    return any(each in words for each in others) and drawn not in words


@pytest.fixture(params=POOLS)
def pool(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
