"""Each test begins without jobs, whether the pytest plugin is installed or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_qless.testing.cleaning import clean


@pytest.fixture(autouse=True)
def nothing_is_put() -> Iterator[None]:
    """Empty the tests' server before and after each test."""
    clean()
    yield
    clean()
