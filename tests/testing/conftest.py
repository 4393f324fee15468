"""Each test begins without jobs, whether the pytest plugin is installed or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_qless.testing.dispatcher import clean


@pytest.fixture(autouse=True)
def clean_server() -> Iterator[None]:
    """Empty the tests' server before and after each test."""
    clean()
    yield
    clean()
