"""Our backend does what Django's Tasks expect, and Django's own passes the same tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.tasks import installed, work
from tests.tasks.conformance import Conformance
from tests.tasks.conftest import tasks_setting
from tests.tasks.promises import Promises


class TestImmediate(Conformance):
    """The tests themselves are sound."""

    settings = {
        "default": {"BACKEND": installed.IMMEDIATE, "QUEUES": ["default", "mail"]},
        "open": {"BACKEND": installed.IMMEDIATE, "QUEUES": []},
    }

    @pytest.fixture
    def drain(self) -> Callable[[], int]:
        return lambda: 0

    def test_a_keyboard_interrupt_goes_to_the_caller(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            work.interrupted.enqueue()


class TestQless(Promises):
    """In each of the ways in which a worker runs jobs."""

    settings = tasks_setting()

    @pytest.fixture
    def drain(self, each_drain: Any) -> Callable[[], int]:
        run: Callable[[], int] = each_drain
        return run
