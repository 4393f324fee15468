"""The core does what it did when recorded.json was written, operation by operation.

    python -m tests.lua.test_recorded          writes it anew, where a change is meant

The operations are random, so that nobody has thought of them; what is right about them
others tell: here it only has to be the same. Valkey keeps small sets in the order in which
they were filled, so the record is made there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lua.caller import Core, Library
from tests.lua.recording import record
from tests.servers import Server

if TYPE_CHECKING:
    import redis

PATH = Path(__file__).with_name("recorded.json")
SEEDS = [str(seed) for seed in range(24)]
COUNT = 250
LETTERS = 4


def core_on(server: Server, library: Library) -> Core:
    """Return the core as functions."""
    client: redis.Redis = server.client(
        decode_responses=True, encoding_errors="surrogateescape"
    )
    library.load(client, "function")
    return Core(client, "function", library)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_does_what_it_did(server: Server, library: Library, seed: str) -> None:
    text = json.loads(PATH.read_text())[seed]
    core = core_on(server, library)
    before: dict[str, object] = {}
    for number, entry in enumerate(record(core, int(seed), COUNT)):
        known = text[number * LETTERS :][:LETTERS]
        changed = {
            name: entry.state.get(name)
            for name in before.keys() | entry.state.keys()
            if before.get(name) != entry.state.get(name)
        }
        assert entry.digest == known, (
            f"operation {number} differs: {entry.operation}\n"
            f"its reply: {entry.reply}\nits events: {entry.events}\n"
            f"the keys that it has changed: {changed}\n"
            "If that is meant: python -m tests.lua.test_recorded"
        )
        before = entry.state


def main() -> None:
    """Write the record."""
    with Server("valkey") as server:
        core = core_on(server, Library())
        made = {
            seed: "".join(entry.digest for entry in record(core, int(seed), COUNT))
            for seed in SEEDS
        }
    PATH.write_text(json.dumps(made, indent=0) + "\n")


if __name__ == "__main__":
    main()
