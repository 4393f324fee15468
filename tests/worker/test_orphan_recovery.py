"""The jobs of a child that died in the moment in which it was given some."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.worker.pools import shared_state
from django_qless.worker.pools.orphan_recovery import OrphanRecovery
from django_qless.worker.pools.shared_state import SharedState

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client

    Put = Callable[..., str]


class Member:
    """A child as its parent knows it."""

    def __init__(self, *, calls: int = 0, status: int | None = None) -> None:
        self.shared = SharedState(slots=4)
        self.shared.ints[shared_state.CALLS] = calls
        self.pid, self.status = 7, status
        self.killed_outcomes = None
        self.looks = 0

    def request_attention(self) -> None:
        self.looks += 1

    def stacks(self) -> str:
        return ""


@pytest.fixture
def jids(client: Client, put: Put) -> list[str]:
    """Jobs that the worker holds."""
    made = [put("give", n) for n in range(3)]
    client.settle("w", [], 3, ["q"])
    return made


def states(client: Client, jids: list[str]) -> list[str]:
    return [job.state for job in client.multiget(jids)]


def test_what_no_child_knows_is_returned(client: Client, jids: list[str]) -> None:
    alive: Any = Member()
    dead: Any = Member(calls=1, status=-9)
    known, apart, _ = client.multiget(jids)
    alive.shared.take(known.jid, known.token, 0.0)
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    orphans.settle([alive], {apart.token})
    assert orphans.is_done
    assert states(client, jids) == ["running", "running", "waiting"]
    assert client.multiget(jids)[2].remaining == known.remaining


def test_a_child_in_a_call_may_be_about_to_know_them(
    client: Client, jids: list[str]
) -> None:
    """It is woken from what may be a long wait, and asked for again soon."""
    calling: Any = Member(calls=5)
    dead: Any = Member(calls=1, status=-9)
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    for looks in (1, 2):
        orphans.settle([calling])
        assert not orphans.is_done
        assert orphans.due < time.monotonic() + 60
        assert calling.looks == looks
        assert states(client, jids) == ["running"] * 3
    calling.shared.ints[shared_state.CALLS] += 1
    orphans.settle([calling])
    assert orphans.is_done
    assert states(client, jids) == ["waiting"] * 3


def test_a_child_that_died_outside_of_a_call_needs_no_search(client: Client) -> None:
    dead: Any = Member(calls=2, status=-9)
    orphans = OrphanRecovery(client, "w")
    orphans.take_over(dead)
    assert orphans.is_done
