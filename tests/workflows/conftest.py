"""Each test begins with a fresh record of what has run."""

from __future__ import annotations

import pytest

from tests.jobs_app import flows


@pytest.fixture(autouse=True)
def _fresh() -> None:
    flows.ran.clear()
    flows.failing.clear()
