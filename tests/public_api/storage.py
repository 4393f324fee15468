"""Keys, fields, history entries and events that random operations produce.

A key is shown with its pattern of the glossary in lua/head.lua. What stands for a value of
its own (a jid, a worker, a field that is a date) is shown as <>.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lua.recording import record

if TYPE_CHECKING:
    from tests.lua.caller import Core
    from tests.lua.recording import Entry

HEAD = Path(__file__).parents[2] / "lua" / "head.lua"

#: Even seeds leave records as they are; together these make all themes of inquiries.
SEEDS = ("0", "2", "4", "6", "8", "10", "12", "14")
COUNT = 250

#: Names that are values: of jobs, workers, clients, bins of histograms and the like.
VALUES = re.compile(
    r"[abcno]|j\d\d|[\w.-]+:[\w.-]+|\d[\d.]*|[smhd]\d+|ms\d+|(cron|timer|our|old)-\w"
)


class Surface:
    """The keys, fields, history entries and events seen so far."""

    def __init__(self) -> None:
        self.kinds: dict[str, set[str]] = defaultdict(set)
        self.fields: dict[str, set[str]] = defaultdict(set)
        self.history: dict[str, set[str]] = defaultdict(set)
        self.events: dict[str, set[str]] = defaultdict(set)
        self.patterns = patterns()

    def see(self, entry: Entry) -> None:
        """Add what an operation changed and published."""
        for name, (kind, content, _) in entry.changed.items():
            if kind == "none":
                continue
            pattern = self.pattern_of(name)
            self.kinds[pattern].add(kind)
            if kind == "hash" and pattern != "config":
                self.fields[pattern] |= set(map(self.field, content[::2]))
            if pattern == "j:<>-history":
                for text in content:
                    _, what, *more = json.loads(text)
                    self.history[what] |= set(map(self.field, *more or [()]))
        for event in entry.events:
            channel, _, text = event.partition(" ")
            channel = re.sub("^ql:w:.*", "ql:w:<>", channel)
            told = json.loads(text)
            if isinstance(told, dict):
                self.events[f"{channel} {told.get('event', '')}"] |= set(told)
            else:
                self.events[channel] |= {"<jid>"}

    def pattern_of(self, name: str) -> str:
        """Return the pattern of a key."""
        bare = name.removeprefix("ql:")
        for pattern, known in self.patterns.items():
            if known.fullmatch(bare):
                return pattern
        return bare

    @staticmethod
    def field(name: str) -> str:
        """Return a field's name, or <> where fields have names of their own."""
        return "<>" if VALUES.fullmatch(name) else name

    def lines(self) -> Iterator[str]:
        """Return a line for each of them."""
        for pattern, kinds in sorted(self.kinds.items()):
            yield f"key {pattern}: {', '.join(sorted(kinds))}"
            yield from (f"key {pattern} {f}" for f in sorted(self.fields[pattern]))
        for what, members in sorted(self.history.items()):
            yield f"history {what}: {', '.join(sorted(members))}"
        for event, members in sorted(self.events.items()):
            yield f"event {event}: {', '.join(sorted(members))}"


def patterns() -> dict[str, re.Pattern[str]]:
    """Return the glossary's patterns, those with fewer open places first."""
    found = re.findall(r"^ +\w+ = '([^']+)'", HEAD.read_text(), re.MULTILINE)
    kinds = ("put", "started", "completed", "failed")
    found += ["j:<>", *(f"s:{kind}:<>:<>" for kind in ("wait", "run", "stats"))]
    found += [f"m:<>:<>:{kind}" for kind in kinds]
    found.sort(key=lambda pattern: (pattern.count("<>"), -len(pattern)))
    return {
        pattern: re.compile(re.escape(pattern).replace("<>", ".*?"))
        for pattern in found
    }


def lines(core: Core) -> Iterator[str]:
    """Return a line for each of them, after the operations of all seeds."""
    surface = Surface()
    for seed in SEEDS:
        for entry in record(core, seed, COUNT):
            surface.see(entry)
    yield from surface.lines()
