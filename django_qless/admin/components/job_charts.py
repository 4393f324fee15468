"""Drawings of a job: the graph of its dependencies, the timeline of its phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from django_qless.admin.components.history import phase_in_words

if TYPE_CHECKING:
    from django_qless.admin.components.job_table import JobRow
    from django_qless.core.attempts import Phase

MOST_NODES = 6
"""Jobs that are drawn on each side; the tables have more."""
NODE_WIDTH, NODE_HEIGHT = 180, 40
GAP_X, GAP_Y = 70, 14
MARGIN = 4
LONGEST = 22
"""Characters of a name that fit into a node."""


@dataclass(frozen=True)
class Node:
    """A box for a job or, without a row, for jobs not drawn."""

    x: int
    y: int
    name: str
    row: JobRow | None = None
    more: int = 0
    is_self: bool = False

    @property
    def text_x(self) -> int:
        """The start of its text."""
        return self.x + 10

    @property
    def name_y(self) -> int:
        """The base line of its name."""
        return self.y + 17

    @property
    def state_y(self) -> int:
        """The base line of its state."""
        return self.y + 32


@dataclass(frozen=True)
class Edge:
    """A line from a job to one that waits for it."""

    path: str
    is_open: bool
    """True if the dependency is not complete."""


@dataclass(frozen=True)
class Graph:
    """The drawing of parts/job_graph.html."""

    nodes: list[Node]
    edges: list[Edge]
    width: int
    height: int
    node_width: int = NODE_WIDTH
    node_height: int = NODE_HEIGHT


def graph(
    own: JobRow,
    before: Sequence[JobRow],
    after: Sequence[JobRow],
    *,
    before_total: int,
    after_total: int,
) -> Graph | None:
    """Return the graph of a job's dependencies; None if it has none."""
    if not before_total and not after_total:
        return None
    columns = 1 + bool(before_total) + bool(after_total)
    most = max(_places(before_total), 1, _places(after_total))
    height = most * (NODE_HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN
    width = columns * NODE_WIDTH + (columns - 1) * GAP_X + 2 * MARGIN
    own_x = MARGIN + (NODE_WIDTH + GAP_X if before_total else 0)
    centre = Node(own_x, (height - NODE_HEIGHT) // 2, short(own), own, is_self=True)
    nodes, edges = [centre], []
    for node in _column(before, before_total, MARGIN, height):
        nodes.append(node)
        is_open = node.row is not None and node.row.brief.state != "complete"
        edges.append(_edge(node, centre, is_open or node.more > 0))
    for node in _column(after, after_total, own_x + NODE_WIDTH + GAP_X, height):
        nodes.append(node)
        edges.append(_edge(centre, node, own.brief.state != "complete"))
    return Graph(nodes, edges, width, height)


def short(row: JobRow) -> str:
    """Return the last parts of a job's name that fit into a node."""
    first, *others = reversed(row.brief.klass.split("."))
    if len(first) > LONGEST:
        return f"{first[: LONGEST - 1]}…"
    name = first
    for part in others:
        if len(part) + 1 + len(name) > LONGEST:
            break
        name = f"{part}.{name}"
    return name


def _places(total: int) -> int:
    return min(total, MOST_NODES + 1)


def _column(rows: Sequence[JobRow], total: int, x: int, height: int) -> list[Node]:
    """Return a column of boxes; the last one counts the jobs not drawn."""
    shown = list(rows[:MOST_NODES])
    more = total - len(shown)
    number = len(shown) + bool(more > 0)
    top = (height - number * (NODE_HEIGHT + GAP_Y) + GAP_Y) // 2
    step = NODE_HEIGHT + GAP_Y
    nodes = [Node(x, top + n * step, short(row), row) for n, row in enumerate(shown)]
    if more > 0:
        nodes.append(Node(x, top + len(shown) * step, "", more=more))
    return nodes


def _edge(start: Node, end: Node, is_open: bool) -> Edge:
    """Return a curve from the right of one box to the left of another."""
    x1, y1 = start.x + NODE_WIDTH, start.y + NODE_HEIGHT // 2
    x2, y2 = end.x - 7, end.y + NODE_HEIGHT // 2
    bend = (x2 - x1) // 2
    path = f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
    return Edge(path, is_open)


TIMELINE_WIDTH, TIMELINE_HEIGHT = 1000, 26
NARROWEST = 2.0
"""The width of a phase of no time at all, so that it is seen."""

PHASES = {
    "waiting": lambda: _("waited"),
    "running": lambda: _("ran"),
    "failed": lambda: _("failed"),
    "unknown": lambda: _("not recorded"),
}


@dataclass(frozen=True)
class PhaseBar:
    """A phase as a rectangle."""

    x: str
    width: str
    kind: str
    words: str


@dataclass(frozen=True)
class Timeline:
    """The drawing of parts/job_timeline.html."""

    bars: list[PhaseBar]
    start: float
    end: float
    is_open: bool
    """True if its end is now."""
    width: int = TIMELINE_WIDTH
    height: int = TIMELINE_HEIGHT


def timeline(phases: Sequence[Phase]) -> Timeline | None:
    """Return the timeline of these phases; None if there are none."""
    if not phases:
        return None
    start, end = phases[0].start, phases[-1].end
    scale = TIMELINE_WIDTH / (end - start) if end > start else 0.0
    bars = []
    for phase in phases:
        x = min((phase.start - start) * scale, TIMELINE_WIDTH - NARROWEST)
        width = max(phase.seconds * scale, NARROWEST)
        if not scale:
            x, width = 0.0, float(TIMELINE_WIDTH)
        text = _("%(what)s %(time)s") % {
            "what": PHASES[phase.kind](),
            "time": phase_in_words(phase),
        }
        bars.append(PhaseBar(f"{x:.1f}", f"{width:.1f}", phase.kind, text))
    return Timeline(bars, start, end, phases[-1].is_open)
