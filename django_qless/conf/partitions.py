"""Partitions: a queue is split over several namespaces by `partitions` in QUEUES.

    "QUEUES": {"events": {"partitions": 8}}

makes the namespaces "default/events:0" to "default/events:7". Within each of them the queue
is called as it is: "events".
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from itertools import count
from random import randrange
from typing import Any

from django_qless.core.cluster import hash_tag

OPTION = "partitions"

MOST = 64

SEPARATOR = ":"

_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,40}")

_64_BITS = 2**64 - 1


def counts(queues: Any) -> dict[str, int]:
    """Return the queues of QUEUES that are split, each with its number of partitions."""
    return {
        queue: options[OPTION]
        for queue, options in (queues.items() if isinstance(queues, Mapping) else ())
        if isinstance(queue, str)
        and isinstance(options, Mapping)
        and is_count(options.get(OPTION))
        and options[OPTION] > 1
    }


def is_count(value: Any) -> bool:
    """Return whether a queue can have so many partitions; one is the queue itself."""
    return type(value) is int and 1 <= value <= MOST


def keys(queue: str, number: int) -> list[str]:
    """Return the keys in NAMESPACES of the partitions of a queue, in their order."""
    return [f"{queue}{SEPARATOR}{index}" for index in range(number)]


def prefix(home: str, queue: str, index: int) -> str:
    """Return the prefix of a partition; `home` is the one that the queue has unsplit.

    With a hash tag it has another one: "{ql}:" becomes "{ql-events-0}:".
    """
    text = queue
    if not _PLAIN.fullmatch(queue):
        text = hashlib.sha256(queue.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    tag = hash_tag(home)
    if tag:
        return home.replace(f"{{{tag}}}", f"{{{tag}-{text}-{index}}}", 1)
    return f"{home.rstrip(SEPARATOR)}-{text}-{index}{SEPARATOR}"


def index_of(key: str, number: int) -> int:
    """Return the partition of a key, the same at each call and in each process.

    When partitions are added only as many keys move as these get: of four that become
    eight, every other one.
    """
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8)
    state, found, following = int.from_bytes(digest.digest(), "big"), 0, 0
    # Jump consistent hash, by Lamping and Veach.
    while following < number:
        found = following
        state = (state * 2862933555777941757 + 1) & _64_BITS
        following = int((found + 1) * (2**31 / ((state >> 33) + 1)))
    return found


def next_index(number: int) -> int:
    """Return the partition of a job without a key: each in its turn."""
    return next(_turns) % number


def _begin() -> None:
    """Begin anywhere: each of many processes may enqueue one job only."""
    global _turns
    _turns = count(randrange(MOST * 1000))


_turns = count()
_begin()
os.register_at_fork(after_in_child=_begin)
