"""Makes the same steps on two builds, finds where they differ, and shortens the way there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tests.core.against.rules import LATER, reduced
from tests.core.against.sequences import Drawer
from tests.core.against.side import Outcome, Side, Step
from tests.core.keyspace import difference
from tests.real_servers import Server

MOST_REPLAYS = 200


class Difference(NamedTuple):
    """The last of some steps, and in what the builds then differ."""

    steps: list[Step]
    part: str
    old: Any
    new: Any

    @property
    def kind(self) -> tuple[str, str]:
        """What has to be the same for two differences to be one."""
        return self.part, self.steps[-1].operation.command

    def __str__(self) -> str:
        steps = "\n".join(f"  {step}" for step in self.steps)
        return (
            f"{self.part} of {self.steps[-1].operation.command}, after\n{steps}\n"
            f"  old: {shown(self.old)}\n  new: {shown(self.new)}"
        )


def shown(value: Any) -> str:
    """Return a side of a difference as text."""
    text = str(value) if isinstance(value, Exception) else repr(value)
    return text if len(text) < 4000 else text[:4000] + " …"


class Comparison:
    """The old build and the new one, each on a server of its own."""

    def __init__(
        self, old: Path, new: Path, kind: str = "valkey", *, keys: bool = False
    ):
        self.builds = old, new
        self.kind = kind
        self.keys = keys
        self.stack = ExitStack()

    def __enter__(self) -> Comparison:
        sides = []
        for build in self.builds:
            server = self.stack.enter_context(Server(self.kind))
            sides.append(Side(server, build))
            self.stack.callback(sides[-1].close)
        self.old, self.new = sides
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stack.close()

    def search(self, name: str, kind: str, length: int) -> Difference | None:
        """Draw and make a sequence; return its first difference, if it has any."""
        drawer, steps = Drawer(name, kind), []
        self.clear()
        for _ in range(length):
            steps.append(drawer.draw(self.old.running))
            found = self.differ(steps, self.keys or kind == "without KEYS")
            if found:
                return found
        return None

    def replay(self, steps: Iterable[Step], *, keys: bool) -> Difference | None:
        """Make these steps from the beginning; return the first difference."""
        self.clear()
        made: list[Step] = []
        for step in steps:
            made.append(step)
            found = self.differ(made, keys)
            if found:
                return found
        return None

    def clear(self) -> None:
        """Empty both servers."""
        self.old.clear()
        self.new.clear()

    def differ(self, steps: list[Step], keys: bool) -> Difference | None:
        """Make the last of some steps on both sides, and compare what came of it."""
        step = steps[-1]
        old, new = self.old.perform(step), self.new.perform(step)
        for part in ("reply", "events"):
            one, other = getattr(old, part), getattr(new, part)
            if not alike(one, other):
                ours = reduced(part, step, one, self.old.ranks)
                theirs = reduced(part, step, other, self.new.ranks)
                if ours != theirs:
                    return Difference(list(steps), part, one, other)
        if keys and not is_stored_alike(old, new):
            before, after = (
                reduced("keys", step, side.keys(), side.ranks)
                for side in (self.old, self.new)
            )
            changed = {
                name: pair
                for name, pair in difference(before, after).items()
                if not is_only_later(*pair)
            }
            if changed:
                return Difference(
                    list(steps),
                    "keys",
                    {name: pair[0] for name, pair in changed.items()},
                    {name: pair[1] for name, pair in changed.items()},
                )
        return None

    def confirmed(self, found: Difference, *, keys: bool) -> Difference | None:
        """Return a difference with as few steps as show it, if it comes again."""
        again = self.replay(found.steps, keys=keys)
        if not again:
            return None
        best, replays, size = again, 0, max(len(again.steps) // 2, 1)
        while size and replays < MOST_REPLAYS:
            start, smaller = 0, False
            while start < len(best.steps) - 1 and replays < MOST_REPLAYS:
                replays += 1
                fewer = without(best.steps, start, size)
                shorter = self.replay(fewer, keys=keys)
                if shorter and shorter.kind == best.kind:
                    best, smaller = shorter, True
                else:
                    start += size
            size = size if smaller and size == 1 else size // 2
        return best


def without(steps: Sequence[Step], start: int, size: int) -> list[Step]:
    """Return steps with some of them left out, but never the last."""
    kept = [*steps[:start], *steps[start + size :]]
    return kept if kept and kept[-1] is steps[-1] else [*kept, steps[-1]]


def alike(old: Any, new: Any) -> bool:
    """Return whether two replies or lists of events are the same to the letter."""
    if isinstance(old, Exception) or isinstance(new, Exception):
        return False
    return bool(old == new)


def is_stored_alike(old: Outcome, new: Outcome) -> bool:
    """Return whether two sides hold the same keys."""
    return (
        old.digest == new.digest
        and old.lifetimes.keys() == new.lifetimes.keys()
        and all(
            abs(left - new.lifetimes[name]) < LATER
            for name, left in old.lifetimes.items()
        )
    )


def is_only_later(old: Any, new: Any) -> bool:
    """Return whether two keys differ only in a moment of their lifetimes."""
    if not old or not new or old[:2] != new[:2]:
        return False
    ends = old[2], new[2]
    return -1 not in ends and abs(ends[0] - ends[1]) < LATER
