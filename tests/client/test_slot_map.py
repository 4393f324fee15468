"""Which nodes are asked where a slot is, without servers: tests say what each answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from django_qless.core.cluster import Address, SlotMap, is_no_cluster
from django_qless.core.request import drive

#: Its slot is 5698.
PREFIX = "{ql}:"
A, B, C, D = ("a", 1), ("b", 2), ("c", 3), ("d", 4)
AWAY = RedisConnectionError("refused")


class Nodes:
    """A connection to any node; each gives its answer, or fails."""

    def __init__(self, answers: dict[Address, Any]) -> None:
        self.answers = answers
        self.asked: list[Address] = []
        self.closed = 0
        self.host, self.port = "", 0

    def connect(self) -> None:
        self.asked.append((self.host, self.port))

    def send_command(self, *words: str) -> None:
        assert words == ("CLUSTER", "SLOTS")

    def read_response(self) -> Any:
        answer = self.answers[self.host, self.port]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def disconnect(self) -> None:
        self.closed += 1


def slots(*owners: Address, first: int = 0, last: int = 16383) -> list[Any]:
    """Return an answer in which a node and its replicas have these slots."""
    return [[first, last, *([host, port, "id", []] for host, port in owners)]]


def find(slot_map: SlotMap, answers: dict[Address, Any]) -> list[Address]:
    """Look the slot up; return the nodes that were asked."""
    nodes = Nodes(answers)
    slot_map.address = None
    try:
        assert drive(slot_map.find(nodes)) == slot_map.address
    finally:
        assert nodes.closed == len(nodes.asked)
    return nodes.asked


def test_what_is_known_is_not_asked_for() -> None:
    slot_map = SlotMap([A], PREFIX)
    assert slot_map.address is None
    slot_map.address = B
    nodes = Nodes({})
    assert drive(slot_map.find(nodes)) == B
    assert nodes.asked == []


@pytest.mark.parametrize(
    ("first", "last", "has"),
    [
        *[(5698, 5698, True), (0, 5698, True), (5698, 16383, True)],
        *[(0, 5697, False), (5699, 16383, False)],
    ],
)
def test_the_ends_of_a_range_belong_to_it(first: int, last: int, has: bool) -> None:
    slot_map = SlotMap([A], PREFIX)
    ranges = slots(B, C, first=first, last=last)
    assert slot_map._read(ranges, A) == (B if has else None)


def test_one_node_after_the_other_is_asked_until_one_knows() -> None:
    slot_map = SlotMap([A, B, C, D], PREFIX)
    answers = {A: AWAY, B: slots(D, last=5697), C: slots(D), D: slots(A)}
    assert find(slot_map, answers) == [A, B, C]
    assert slot_map.address == D


def test_another_node_is_asked_the_next_time() -> None:
    """The one that has answered may be cut off from the others."""
    slot_map = SlotMap([A, B], PREFIX)
    ranges = [*slots(C, B), *slots(A, first=0, last=0)]
    answers = dict.fromkeys((A, B, C), ranges)
    assert [find(slot_map, answers) for _ in range(4)] == [[A], [C], [B], [A]]


def test_a_node_that_is_away_is_asked_last_the_next_time() -> None:
    slot_map = SlotMap([A, B, C], PREFIX)
    answers = {A: AWAY, B: slots(B, A, C), C: slots(B, A, C)}
    assert find(slot_map, answers) == [A, B]
    assert find(slot_map, answers) == [C]
    assert find(slot_map, {**answers, A: slots(C)}) == [A]


def test_nodes_that_have_left_are_asked_no_more_but_the_named_ones_are() -> None:
    slot_map = SlotMap([A], PREFIX)
    assert find(slot_map, {A: slots(B, C)}) == [A]
    assert find(slot_map, {B: slots(C)}) == [B]
    # A was named, B has left and was asked last.
    assert find(slot_map, {C: AWAY, A: slots(D)}) == [C, A]


def test_a_node_without_a_known_host_is_the_one_that_was_asked() -> None:
    slot_map = SlotMap([A], PREFIX)
    find(slot_map, {A: slots(("", 7), ("?", 8))})
    assert slot_map.address == ("a", 7)
    assert find(slot_map, {A: AWAY, ("a", 7): slots(B)}) == [("a", 7)]


def test_no_node_knows() -> None:
    slot_map = SlotMap([A, B, C], PREFIX)
    answers = {A: AWAY, B: OSError(), C: slots(("?", 3))}
    with pytest.raises(RedisConnectionError) as caught:
        find(slot_map, answers)
    assert str(caught.value) == (
        "No node of the cluster says where slot 5698 is "
        "(a:1: refused; b:2: OSError(); c:3: no node has slot 5698)"
    )


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (AuthenticationError("wrong password"), AuthenticationError, "^wrong password"),
        (NoPermissionError("cluster|slots"), NoPermissionError, "^cluster"),
        (
            ResponseError("ERR This instance has cluster support disabled"),
            ResponseError,
            "^NOCLUSTER a:1 is not in cluster mode$",
        ),
    ],
)
def test_a_refusal_that_others_would_repeat_ends_the_search(
    error: RedisError, kind: type[RedisError], words: str
) -> None:
    slot_map = SlotMap([A, B], PREFIX)
    with pytest.raises(kind, match=words) as caught:
        find(slot_map, {A: error, B: slots(B)})
    assert type(caught.value) is kind


def test_other_refusals_do_not_end_it() -> None:
    slot_map = SlotMap([A, B], PREFIX)
    assert find(slot_map, {A: ResponseError("LOADING"), B: slots(B)}) == [A, B]
    assert not is_no_cluster(RedisConnectionError("cluster support disabled"))
    assert not is_no_cluster(ResponseError("LOADING"))


def test_a_redirection_without_an_address_leads_to_a_question() -> None:
    slot_map = SlotMap([A], PREFIX)
    slot_map.follow(MovedError("5698 b:9"), A)
    assert slot_map.address == ("b", 9)
    error: Any = SimpleNamespace(host="b", port=0)
    slot_map.follow(error, A)
    assert slot_map.address is None
    slot_map.follow(RedisConnectionError("lost"), A)
    assert slot_map.address is None
