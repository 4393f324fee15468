"""Methods of rows that are jobs, as the page of an object names them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from django_qless.admin.components.row_jobs import Method


def bare(self: Any) -> None: ...


def plain(self: Any, title: str, count: int = 3) -> None:
    """Rename it.

    And more.
    """


def starred(
    self: Any, *more: str, quiet: bool, loud: bool = False, **rest: int
) -> None:
    """
    Do it.
    """


def only_named(self: Any, first: int, *, quiet: bool, loud: bool = True) -> None:
    """ """


@pytest.mark.parametrize(
    ("function", "call", "summary"),
    [
        (bare, "bare()", ""),
        (plain, "plain(title, count=…)", "Rename it."),
        (starred, "starred(*more, quiet, loud=…, **rest)", "Do it."),
        (only_named, "only_named(first, *, quiet, loud=…)", ""),
    ],
)
def test_a_method_is_named_as_it_is_called(
    function: Callable[..., None], call: str, summary: str
) -> None:
    job_type: Any = SimpleNamespace(function=function)
    found = Method(function.__name__, job_type)
    assert (found.call, found.summary) == (call, summary)
