"""Which partitions of queues a worker serves."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Collection, Mapping
from typing import Any

from django.core.management.base import CommandError

from django_qless.conf import partitions, routing

_RANGE = re.compile(r"(\d{1,2})(?:-(\d{1,2}))?", re.ASCII)


def add_partition_option(add: Any) -> None:
    """Add `--partition` to a group of arguments."""
    add(
        "--partition",
        type=numbers,
        metavar="N",
        help="of queues that are split, serve these partitions only: 0-3 or 0,2,5 "
        "(default: all)",
    )


def numbers(text: str) -> frozenset[int]:
    """Read numbers of partitions: "0-3", "0,2,5"."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = match.groups() if match else ("", "")
        if not first or int(last or first) < int(first):
            raise ArgumentTypeError(
                f"{text!r} are no partitions: give numbers from 0, as 0-3 or 0,2,5"
            )
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def served(
    queues: Mapping[str, tuple[str, ...]], wanted: Collection[int] | None
) -> dict[str, tuple[str, ...]]:
    """Return the namespaces to serve: of partitions only those that are wanted, if given.

    Raises CommandError if there is none of a number.
    """
    if wanted is None:
        return dict(queues)
    found = {
        name: own
        for name, own in queues.items()
        if (number := _number(name)) is None or number in wanted
    }
    if missing := set(wanted).difference(map(_number, found)):
        raise CommandError(
            f"--partition: no queue that is served has a partition {min(missing)}: see "
            f'"{partitions.OPTION}" in QUEUES, which counts them from 0.',
            returncode=2,
        )
    return found


def _number(name: str) -> int | None:
    """Return the number of a partition, None for a namespace that is none."""
    if not routing.split_queue(name):
        return None
    return int(name.rpartition(partitions.SEPARATOR)[2])
