"""Nothing of a call is left for the next one, though functions keep what modules keep.

Each call is made right behind another one that succeeded, was refused, or broke off in the
middle. It answers, publishes and stores what it does as the first call of its library. By
day some pairs are tried, by night all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import drawing
from tests.core.against import builds
from tests.core.leaks import CALLS, OTHERS, Leaks, Made, differences
from tests.real_servers import Server

#: By day one pair in this many.
RARELY = 64


@pytest.fixture(scope="module")
def server_of_leaks() -> Iterator[Server]:
    with Server("valkey") as server:
        yield server


@pytest.fixture(scope="module")
def leaks(
    server_of_leaks: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Leaks]:
    """The core on another server."""
    path = tmp_path_factory.mktemp("leaks") / "qless.lua"
    leaks = Leaks(server_of_leaks, builds.write(builds.present(), path))
    yield leaks
    leaks.close()


def found(leaks: Leaks, before: Made, calls: list[Made]) -> list[str]:
    """Return what each of some calls does otherwise behind another one."""
    faults, told = leaks.faults(before), []
    firsts = [leaks.first(call) for call in calls]
    begin = drawing.draw(before.name, len(faults))
    for number, (call, first) in enumerate(zip(calls, firsts, strict=True), begin):
        fault = faults[number % len(faults)]
        leaks.make(before, fault, drawing.draw(f"{before.name}: {call.name}", OTHERS))
        for words in differences(first, leaks.outcome(call)):
            told.append(f"{call.name}, behind {before.name} ({fault}): {words}")
    return told


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_nothing_to_the_next(leaks: Leaks, name: str) -> None:
    calls = [
        call
        for call in CALLS.values()
        if drawing.ALL or drawing.draw(f"{name}, {call.name}", RARELY) == 0
    ]
    assert found(leaks, CALLS[name], calls) == []


LEAK = """
local calls = 0
local function call(command, ...)
  calls = calls + 1
  if command == 'PUBLISH' then
    local channel, text = ...
    return real().call(command, channel, text .. calls)
  end
"""


def test_a_leak_is_found(tmp_path: Path) -> None:
    """The core counts its commands, from call to call."""
    frozen = builds.FROZEN.replace("local function call(command, ...)\n", LEAK)
    assert frozen != builds.FROZEN
    path = tmp_path / "qless.lua"
    path.write_text(frozen + builds.present(), encoding="utf-8")
    by_command = {
        call.operation.command: call for call in CALLS.values() if call.operation.keyed
    }
    with Server("valkey") as server:
        leaks = Leaks(server, path)
        [words] = found(leaks, by_command["get"], [by_command["config.set"]])
        leaks.close()
    assert "events" in words
