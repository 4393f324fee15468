"""Pytest plugin: fixtures with the names of the helpers.

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
    """Capture the test's jobs in this list; none is enqueued, and none runs."""
    from django_qless.testing import captured_jobs

    with captured_jobs() as jobs:
        yield jobs


@pytest.fixture
def inline_jobs() -> Iterator[Runs]:
    """Run the test's jobs at once; the runs are in this list."""
    from django_qless.testing import inline_jobs

    with inline_jobs() as runs:
        yield runs


@pytest.fixture
def run_jobs() -> Callable[..., Runs]:
    """Run the jobs enqueued so far when called: see `django_qless.testing`."""
    from django_qless.testing import run_jobs

    return run_jobs


@pytest.fixture
def qless_server() -> Throwaway:
    """The private server of this test process, running: `url`, `client()`, `flush()`."""
    from django_qless.testing import qless_server

    return qless_server()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Empty the tests' server after each test that may have enqueued something."""
    try:
        yield
    finally:
        # Imported as soon as something is enqueued.
        dispatcher = sys.modules.get("django_qless.testing.dispatcher")
        if dispatcher is not None:
            dispatcher.clean()
