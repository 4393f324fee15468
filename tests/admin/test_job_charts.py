"""Drawings of a job: the graph of its dependencies, the timeline of its phases."""

from __future__ import annotations

from typing import Any

import pytest

from django_qless.admin.components import job_charts
from django_qless.admin.components.job_charts import MARGIN, NODE_HEIGHT, NODE_WIDTH
from django_qless.core.attempts import Phase
from tests.admin.rows import row

# The graph of dependencies.


def drawn(before: list[str], after: list[str], **more: Any) -> job_charts.Graph | None:
    """Return the graph of a job beside others in these states."""
    totals = {"before_total": len(before), "after_total": len(after)}
    own = row(jid="own", state=more.pop("state", "depends"))
    return job_charts.graph(
        own,
        *([row(state=state) for state in states] for states in (before, after)),
        **{**totals, **more},
    )


def test_a_job_without_dependencies_has_no_graph() -> None:
    assert drawn([], []) is None


@pytest.mark.parametrize(
    ("before", "after", "columns"), [(1, 0, 2), (0, 1, 2), (1, 1, 3), (3, 2, 3)]
)
def test_boxes_stand_in_columns_from_left_to_right(
    before: int, after: int, columns: int
) -> None:
    graph = drawn(["waiting"] * before, ["depends"] * after)
    assert graph
    own, *others = graph.nodes
    assert [own.is_self, *(each.is_self for each in others)] == [True] + [False] * (
        before + after
    )
    places = sorted({node.x for node in graph.nodes})
    assert len(places) == columns
    assert places[0] == graph.width - places[-1] - NODE_WIDTH == MARGIN
    lefts, rights = others[:before], others[before:]
    assert all(each.x + NODE_WIDTH < own.x for each in lefts)
    assert all(each.x > own.x + NODE_WIDTH for each in rights)
    for column in ([own], lefts, rights):
        tops = [node.y for node in column]
        bottoms = [top + NODE_HEIGHT for top in tops]
        assert all(
            end < begin for end, begin in zip(bottoms, tops[1:], strict=False)
        ), "Boxes do not touch each other."
        # Each column is in the middle, and the highest one fits between the margins.
        if column:
            assert abs(tops[0] - (graph.height - bottoms[-1])) <= 1
            assert tops[0] >= MARGIN
    highest = max([own], lefts, rights, key=len)
    assert highest[0].y == MARGIN


def test_name_and_state_stand_below_each_other_in_their_box() -> None:
    graph = drawn(["waiting"], ["depends"])
    assert graph
    letters = 10
    for node in graph.nodes:
        assert node.x < node.text_x < node.x + NODE_WIDTH // 4
        assert node.y + letters < node.name_y < node.state_y - letters
        assert node.state_y < node.y + NODE_HEIGHT - 4


def test_a_line_goes_from_each_job_to_the_one_that_waits_for_it() -> None:
    graph = drawn(["complete", "running"], ["depends"])
    assert graph
    own, first, second, after = graph.nodes
    middle = NODE_HEIGHT // 2
    ends = []
    for edge, (start, end) in zip(
        graph.edges, ((first, own), (second, own), (own, after)), strict=True
    ):
        begins, bends = edge.path.split(" C")
        assert begins == f"M{start.x + NODE_WIDTH} {start.y + middle}"
        x1, y1, x2, y2, x, y = map(int, bends.split())
        assert (y1, y2, y) == (start.y + middle, end.y + middle, end.y + middle)
        assert start.x + NODE_WIDTH < x1 <= x2 < x < end.x
        ends.append(x)
    assert [edge.is_open for edge in graph.edges] == [False, True, True]


def test_a_job_that_is_complete_holds_no_one_up() -> None:
    for state, is_open in (("complete", False), ("failed", True), ("running", True)):
        graph = drawn([], ["waiting"], state=state)
        assert graph
        assert [edge.is_open for edge in graph.edges] == [is_open]


@pytest.mark.parametrize(
    ("total", "boxes", "more"), [(5, 5, 0), (6, 6, 0), (7, 7, 1), (60, 7, 54)]
)
def test_a_box_counts_those_that_are_not_drawn(
    total: int, boxes: int, more: int
) -> None:
    for side in ("before", "after"):
        # Some more were read, for the table.
        read = {"before": [], "after": [], side: ["complete"] * min(total, 50)}
        graph = drawn(**read, **{f"{side}_total": total})
        assert graph
        _own, *others = graph.nodes
        assert len(others) == len(graph.edges) == boxes
        assert sum(node.more for node in others) == more == others[-1].more
        assert others[-1].y + NODE_HEIGHT + MARGIN == graph.height
        if side == "before":
            # Of those that are not drawn some may be open.
            opens = [edge.is_open for edge in graph.edges]
            assert opens == [False] * (boxes - bool(more)) + [True] * bool(more)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("send", "send"),
        ("shop.jobs.send", "shop.jobs.send"),
        ("warehouse.orders.jobs.send", "orders.jobs.send"),
        # Of 22 characters, and of one more.
        ("a.twelve_chars.jobs.send", "twelve_chars.jobs.send"),
        ("a.thirteen_char.jobs.send", "jobs.send"),
        ("shop.jobs.exactly_twenty_two__", "exactly_twenty_two__"),
        ("jobs." + "x" * 22, "x" * 22),
        ("jobs." + "x" * 23, "x" * 21 + "…"),
    ],
)
def test_the_last_parts_of_a_name_fit_into_a_box(name: str, text: str) -> None:
    assert job_charts.short(row(klass=name)) == text


# The timeline.


def test_a_job_without_a_time_has_no_timeline() -> None:
    assert job_charts.timeline([]) is None


def test_the_bars_of_a_timeline_fill_it_by_their_times() -> None:
    found = job_charts.timeline(
        [
            Phase("waiting", 100.5, 102.5),
            Phase("running", 102.5, 110.5),
            Phase("failed", 110.5, 120.5, is_open=True),
        ]
    )
    assert found
    assert [(bar.x, bar.width, bar.kind) for bar in found.bars] == [
        ("0.0", "100.0", "waiting"),
        ("100.0", "400.0", "running"),
        ("500.0", "500.0", "failed"),
    ]
    words = ["waited 2.0 s", "ran 8.0 s", "failed 10 s"]
    assert [bar.words for bar in found.bars] == words
    assert (found.start, found.end, found.is_open) == (100.5, 120.5, True)


def test_a_phase_of_no_time_is_seen() -> None:
    found = job_charts.timeline(
        [
            Phase("waiting", 1.5, 1.5),
            Phase("running", 1.5, 9.5),
            Phase("failed", 9.5, 9.5),
        ]
    )
    assert found
    places = [(bar.x, bar.width) for bar in found.bars]
    assert places == [("0.0", "2.0"), ("0.0", "1000.0"), ("998.0", "2.0")]
    assert not found.is_open
    alone = job_charts.timeline([Phase("waiting", 5.5, 5.5)])
    assert alone
    assert [(bar.x, bar.width) for bar in alone.bars] == [("0.0", "1000.0")]
