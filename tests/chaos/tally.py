"""What was counted in a row, and whether it is as required."""

from __future__ import annotations

from typing import NamedTuple


class Fact(NamedTuple):
    """One figure: what it is, its value, what was required of it, and whether it is."""

    what: str
    value: float | str
    required: str = ""
    holds: bool = True

    def __str__(self) -> str:
        value = f"{self.value:.2f}" if isinstance(self.value, float) else self.value
        required = f" (required: {self.required})" if self.required else ""
        return f"{self.what}: {value}{required}{'' if self.holds else ' — BROKEN'}"


class Tally:
    """The figures of one row."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    @property
    def holds(self) -> bool:
        """Whether all is as required, and anything was required at all."""
        return any(fact.required for fact in self.facts) and not self.broken

    @property
    def broken(self) -> list[Fact]:
        """The figures that are not as required."""
        return [fact for fact in self.facts if not fact.holds]

    def note(self, what: str, value: float | str) -> None:
        """Keep a figure of which nothing is required."""
        self.facts.append(Fact(what, value))

    def at_most(self, what: str, value: float, most: float) -> None:
        """Keep a figure that must not be above `most`."""
        self.facts.append(Fact(what, value, f"at most {most:g}", value <= most))

    def at_least(self, what: str, value: float, least: float) -> None:
        """Keep a figure that must not be below `least`."""
        self.facts.append(Fact(what, value, f"at least {least:g}", value >= least))

    def exactly(self, what: str, value: float | str, wanted: float | str) -> None:
        """Keep a figure that must be this one."""
        self.facts.append(Fact(what, value, str(wanted), value == wanted))
