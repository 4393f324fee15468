"""The phases of a job as bars along one line, to scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from django_qless.admin.presenters.history import phase_in_words

if TYPE_CHECKING:
    from django_qless.core.attempts import Phase

WIDTH = 1000
HEIGHT = 26
NARROWEST = 2.0
"""Units of the drawing: a phase of no time at all is still seen."""

NAMES = {
    "waiting": lambda: _("waited"),
    "running": lambda: _("ran"),
    "failed": lambda: _("lay failed"),
    "unknown": lambda: _("not recorded"),
}


@dataclass(frozen=True)
class Bar:
    """A phase as a rectangle."""

    x: str
    width: str
    kind: str
    words: str


@dataclass(frozen=True)
class Timeline:
    """What parts/job_timeline.html draws."""

    bars: list[Bar]
    start: float
    end: float
    is_open: bool
    """Whether it goes on: its end is now."""
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def seconds(self) -> float:
        """How much time the whole width stands for."""
        return self.end - self.start


def timeline(phases: Sequence[Phase]) -> Timeline | None:
    """Return a drawing of these phases; None if there is nothing to draw."""
    if not phases:
        return None
    start, end = phases[0].start, phases[-1].end
    scale = WIDTH / (end - start) if end > start else 0.0
    bars = []
    for phase in phases:
        x = min((phase.start - start) * scale, WIDTH - NARROWEST)
        width = max(phase.seconds * scale, NARROWEST)
        if not scale:
            x, width = 0.0, float(WIDTH)
        text = _("%(what)s %(time)s") % {
            "what": NAMES[phase.kind](),
            "time": phase_in_words(phase),
        }
        bars.append(Bar(f"{x:.1f}", f"{width:.1f}", phase.kind, text))
    return Timeline(bars, start, end, phases[-1].is_open)
