"""Orders for workers, told with a beat, and the stack dumps that workers leave."""

from __future__ import annotations

import pytest

from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot


def beat(
    keyed: Keyed, worker: str = "w", *, now: int = 0, request: str = ""
) -> list[str]:
    """Beat, and return the orders that the reply carries."""
    lost, orders = keyed.call("beat", worker, "{}", 0, now=now, request=request)
    assert lost == []
    answer: list[str] = orders
    return answer


def test_orders_come_in_the_order_given_and_only_to_their_worker(keyed: Keyed) -> None:
    for worker in ("w", "other"):
        beat(keyed, worker)
    for order in ("quiet", "stop", "stop", "resume"):
        keyed.call("order", "w", order, now=1)
    assert beat(keyed, "other", now=2) == []
    assert beat(keyed, now=2) == ["quiet", "stop", "stop", "resume"]


def test_a_repeated_beat_is_told_the_same(keyed: Keyed) -> None:
    beat(keyed)
    keyed.call("order", "w", "quiet", now=1)
    for _ in range(2):
        assert beat(keyed, now=2, request="client:1") == ["quiet"]
    keyed.call("order", "w", "resume", now=3)
    assert beat(keyed, now=4, request="client:1") == ["quiet"]
    assert beat(keyed, now=4, request="client:2") == ["resume"]


def test_a_worker_that_only_took_jobs_is_known_too(keyed: Keyed) -> None:
    keyed.put("jid")
    keyed.take(worker="w")
    keyed.call("order", "w", "stop", now=1)
    assert beat(keyed, now=2) == ["stop"]


def test_a_worker_that_is_silent_for_a_day_is_forgotten(keyed: Keyed) -> None:
    assert keyed.call("beat", "w", "", 0, now=0) == [[], []]
    beat(keyed, "other", now=86_400)
    text = keyed.refusal("order", "w", "stop", now=86_400)
    assert text.startswith("NOWORKER ")


@pytest.mark.parametrize("arguments", [(), ("w",), ("w", "explode"), ("w", "")])
def test_malformed_orders_change_nothing(
    keyed: Keyed, arguments: tuple[str, ...]
) -> None:
    beat(keyed)
    before = snapshot(keyed.server)
    text = keyed.refusal("order", *arguments, now=1)
    assert text.startswith("BADARG ")
    assert ("not explode" in text) == ("explode" in arguments)
    assert snapshot(keyed.server) == before


def test_at_most_twenty_orders_are_kept(keyed: Keyed) -> None:
    beat(keyed, now=0)
    for number in range(30):
        keyed.call("order", "w", "quiet" if number < 29 else "stop", now=1)
    assert beat(keyed, now=2) == ["quiet"] * 19 + ["stop"]


def test_a_worker_that_signs_off_leaves_no_orders(keyed: Keyed) -> None:
    beat(keyed)
    keyed.call("order", "w", "stop", now=1)
    keyed.call("worker.deregister", "w", now=2)
    assert keyed.refusal("order", "w", "stop", now=3).startswith("NOWORKER ")


def test_a_refused_beat_does_not_swallow_orders(keyed: Keyed) -> None:
    beat(keyed)
    keyed.call("order", "w", "stop", now=1)
    assert keyed.refusal("beat", "w", "{}", 2, "a", "1", now=2).startswith("BADARG ")
    assert beat(keyed, now=3) == ["stop"]


def test_there_are_no_orders_without_keys(keyed: Keyed) -> None:
    for command in ("order", "survey"):
        assert "Unknown command" in keyed.core.error(command, 0, "w", "stop")
