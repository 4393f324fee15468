"""Whether each action of the pages was done in the files beside this one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.admin.routes import routes

pytestmark = pytest.mark.xdist_group("actions")

TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)


def test_no_action_is_left_out(
    done: set[str], ran: set[str], request: pytest.FixtureRequest
) -> None:
    """Each action that the resolver knows has been done by then."""
    beside = Path(__file__).parent.glob("test_*.py")
    here = {name for path in beside for name in TEST.findall(path.read_text())}
    here.remove(request.node.name)
    chosen = {item.name.partition("[")[0] for item in request.session.items}
    if missing := here - chosen:
        pytest.skip(f"says something of the whole folder only: without {missing}")
    assert not here - ran, "ran elsewhere: run this folder in one process"
    known = {each.name for each in routes("tests.admin.urls") if each.acts}
    assert known, "no action is known"
    left_out = sorted(known - done)
    assert not left_out
