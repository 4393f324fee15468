"""Calls of several batches that replicas have not confirmed are repeated together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from django_qless.core import NotReplicated, QlessError
from django_qless.enqueue.at_once import AsyncLates, Lates


class Late(NotReplicated):
    """A late call, of which a repeat ends in one of these ways, in their order."""

    def __init__(self, replicas: int, *ends: QlessError | None) -> None:
        super().__init__(f"{replicas} of 3", replicas=replicas)
        self.ends = list(ends)

    def repeat(self) -> Any:
        """Repeat it."""
        if error := self.ends.pop(0):
            raise error

    async def arepeat(self) -> Any:
        """Repeat it in another colour."""
        self.repeat()


def blocking(*lates: Late) -> None:
    """Repeat late calls."""
    Lates(lates).repeat(NotReplicated())


def asynchronous(*lates: Late) -> None:
    """Repeat late calls in an event loop."""
    asyncio.run(AsyncLates(lates).repeat(NotReplicated()))


@pytest.mark.parametrize("repeat", [blocking, asynchronous])
def test_all_are_repeated_and_those_still_late_are_raised_together(
    repeat: Callable[..., None],
) -> None:
    lates = [Late(0, None), Late(1, None)]
    repeat(*lates)
    assert [late.ends for late in lates] == [[], []]

    again = Late(2, None)
    with pytest.raises(NotReplicated) as raised:
        repeat(Late(0, None), Late(1, again))
    assert raised.value is again

    lates = [Late(0, Late(2, None)), Late(1, Late(1, None))]
    with pytest.raises(NotReplicated) as raised:
        repeat(*lates)
    assert raised.value.replicas == 1
    assert [late.ends for late in lates] == [[], []]

    with pytest.raises(QlessError, match="broken"):
        repeat(Late(0, Late(0, None)), Late(1, QlessError("broken")))
