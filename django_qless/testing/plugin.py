"""The pytest plugin: fixtures with the names of the helpers.

It is loaded in every pytest run where django_qless is installed. So it imports nothing,
neither of Django nor of this package, before a test asks for a fixture, and looks after
the tests' server only where there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django_qless.servers.throwaway import Throwaway
    from django_qless.testing import CapturedJobs, Runs


@pytest.fixture
def captured_jobs() -> Iterator[CapturedJobs]:
    """Keep what the test puts in this list; nothing is put, and nothing runs."""
    from django_qless.testing import captured_jobs

    with captured_jobs() as jobs:
        yield jobs


@pytest.fixture
def inline_jobs() -> Iterator[Runs]:
    """Run at once what the test puts; the runs are in this list."""
    from django_qless.testing import inline_jobs

    with inline_jobs() as runs:
        yield runs


@pytest.fixture
def run_jobs() -> Callable[..., Runs]:
    """Run what the test has put when it calls this: see `django_qless.testing`."""
    from django_qless.testing import run_jobs

    return run_jobs


@pytest.fixture
def qless_server() -> Throwaway:
    """The private server of this process of tests, running: `url`, `client()`, `flush()`."""
    from django_qless.testing import qless_server

    return qless_server()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Empty the tests' server after each test that may have put something."""
    try:
        yield
    finally:
        # Whoever has put something has imported this.
        beginning = sys.modules.get("django_qless.testing.beginning")
        if beginning is not None:
            from django_qless.testing.cleaning import clean

            clean()
