"""Which partitions a worker serves, and how many jobs at once in each."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterator

import pytest
from django.core.management.base import CommandError
from django.test import override_settings

from django_qless.management.base import by_queue
from django_qless.management.partitions import numbers, served

SETTING = {
    "default": {
        "LOCATION": "redis://10.0.0.1:6379/0",
        "QUEUES": {"events": {"partitions": 4}, "log": {"partitions": 2}},
    }
}
EVENTS = [f"default/events:{index}" for index in range(4)]
LOG = ["default/log:0", "default/log:1"]


@pytest.fixture(autouse=True)
def _split() -> Iterator[None]:
    with override_settings(QLESS=SETTING):
        yield


@pytest.mark.parametrize(
    ("text", "found"),
    [("0", {0}), ("0-3", {0, 1, 2, 3}), ("5, 0-1,7", {0, 1, 5, 7}), ("12", {12})],
)
def test_numbers_and_ranges_of_partitions(text: str, found: set[int]) -> None:
    assert numbers(text) == found


@pytest.mark.parametrize("text", ["", "-1", "3-1", "a", "1-", "1;2", "1,", "100"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="0-3 or 0,2,5"):
        numbers(text)


def test_of_split_queues_only_some_partitions_are_served() -> None:
    queues = dict.fromkeys(("default", *EVENTS, *LOG), ("*",))
    assert served(queues, None) == queues
    assert list(served(queues, {0, 3})) == ["default", EVENTS[0], EVENTS[3], LOG[0]]
    with pytest.raises(CommandError, match="no queue that is served has a partition 4"):
        served(queues, {0, 4})
    with pytest.raises(CommandError, match="partition 0"):
        served({"default": ("*",)}, {0})


def test_the_namespaces_that_have_queues() -> None:
    names = ["default", *EVENTS, *LOG]
    assert by_queue(names, ["a", "log", "b"]) == [
        ("default", ["a", "b"]),
        *((name, ["log"]) for name in LOG),
    ]
    # One that was named alone is asked for any queue.
    assert by_queue(["default"], ["a", "log"]) == [("default", ["a", "log"])]
