"""The core does what it did when recorded.json was written, operation by operation.

And it takes as many commands of the server for it: what is asked for twice shows.

    python -m tests.lua.test_recorded          writes it anew, where a change is meant

The operations are random, so they are not only those that a person thought of; what is right about them
others tell: here it only has to be the same. Valkey keeps small sets and hashes in the order
in which they were filled, so the record is made there. By day half of the sequences are compared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import drawing
from tests.lua.caller import Core, Library
from tests.lua.newer_inquiries import NEWER
from tests.lua.recording import Entry, record
from tests.real_servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterable

    import redis

PATH = Path(__file__).with_name("recorded.json")
#: Of the first hundred those that reach most of the core's statements, and then some more.
SEEDS = (
    "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 "
    "31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 59 "
    "65 66 68 73 81 82 87 88 93 100 101 105 106"
).split()
#: Of what was added later: whole and narrow cores, damaged or not, by either clock.
SEEDS += [f"{theme} {number}" for theme in NEWER for number in range(8)]
COUNT = 250
LETTERS = 4
MEANT = "If that is meant: python -m tests.lua.test_recorded"


def core_on(server: Server, library: Library) -> Core:
    """Return the core as functions."""
    client: redis.Redis = server.client(
        decode_responses=True, encoding_errors="surrogateescape"
    )
    library.load(client, "function")
    return Core(client, "function", library)


COMPARED = [each for each in SEEDS if drawing.ALL or drawing.draw(each, 2)]


@pytest.mark.parametrize("seed", COMPARED)
def test_it_does_what_it_did(server: Server, library: Library, seed: str) -> None:
    text, *costs = json.loads(PATH.read_text())[seed].split()
    core = core_on(server, library)
    dearer = []
    for number, entry in enumerate(record(core, seed, COUNT)):
        known = text[number * LETTERS :][:LETTERS]
        if entry.commands != int(costs[number]):
            change = f"{costs[number]} commands -> {entry.commands}"
            dearer.append(f"operation {number}, {entry.operation}: {change}")
        assert entry.digest == known, (
            f"operation {number} differs: {entry.operation}\n"
            f"its reply: {entry.reply}\nits events: {entry.events}\n"
            f"the keys that it has changed: {entry.changed}\n{MEANT}"
        )
    assert not dearer, "\n".join(["It does the same in another way:", *dearer, MEANT])


def written(entries: Iterable[Entry]) -> str:
    """Return the digests of operations, then the number of commands of each."""
    digests, costs = zip(
        *((entry.digest, str(entry.commands)) for entry in entries), strict=True
    )
    return " ".join(["".join(digests), *costs])


def main() -> None:
    """Write the record."""
    with Server("valkey") as server:
        core = core_on(server, Library())
        made = {seed: written(record(core, seed, COUNT)) for seed in SEEDS}
    PATH.write_text(json.dumps(made, indent=0) + "\n")


if __name__ == "__main__":
    main()
