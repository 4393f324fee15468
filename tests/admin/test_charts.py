"""Charts: bars and scales, and the tables of the same numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from django.template.loader import render_to_string
from django.utils import translation

from django_qless.admin.components import charts
from django_qless.admin.components.charts import (
    EDGES,
    HEIGHT,
    LEAST,
    Bar,
    Chart,
    bin_edges,
    round_top,
)
from django_qless.core import Throughput
from django_qless.core.commands.statistics import BELOW_SECOND, Distribution
from tests.admin.reading import Page

MINUTE = 29_000_000  # of the epoch
SIZES = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def throughput(completed: list[int], failed: list[int], **more: Any) -> Chart:
    counted = {
        "first": MINUTE,
        "step": 1,
        "put": None,
        "started": [0] * len(completed),
        "completed": completed,
        "failed": failed,
        **more,
    }
    return charts.throughput(Throughput(**counted), ident="hour", title="The last hour")


def histogram(fine: list[int] | None = None, **times: int) -> Chart:
    """Return the chart of so many in each bin, such as s5=3 or m1=2."""
    bins = [0] * 148
    for name, count in times.items():
        bins[bin_edges().index(int(name[1:]) * SIZES[name[0]])] = count
    found = Distribution(sum(bins), 12.5, 3.25, bins)
    if fine is not None:
        found = replace(found, below_second=fine)
    return charts.histogram(found, ident="run", title="Runs")


def html(chart: Chart) -> str:
    return render_to_string("admin/django_qless/parts/chart.html", {"chart": chart})


def table(chart: Chart) -> list[list[str]]:
    return Page(html(chart)).table(chart.title)


def drawing(text: str) -> ElementTree.Element:
    """Return the SVG, which must be XML."""
    found = re.search(r"<svg.*?</svg>", text, re.DOTALL)
    assert found
    return ElementTree.fromstring(found[0])


def rects(bar: Bar) -> dict[str, tuple[float, float]]:
    """Return by class where each rectangle of a bar begins, and its height."""
    return {rect.kind: (float(rect.y), float(rect.height)) for rect in bar.rects}


class TestThroughput:
    def test_bars_stand_on_a_line_and_failures_hang_from_it(self) -> None:
        chart = throughput([10, 5, 0], [0, 2, 1])
        zero, below = chart.zero, HEIGHT - chart.zero
        assert zero == HEIGHT * 10 / 12
        assert [rects(bar) for bar in chart.bars] == [
            {"whole": (0, HEIGHT), "good": (0, zero)},
            {
                "whole": (0, HEIGHT),
                "good": pytest.approx((zero / 2, zero / 2), abs=0.01),
                "bad": pytest.approx((zero, below), abs=0.01),
            },
            {
                "whole": (0, HEIGHT),
                "bad": pytest.approx((zero, below / 2), abs=0.01),
            },
        ]
        assert (chart.top, chart.bottom) == (10, 2)

    @pytest.mark.parametrize(
        ("completed", "failed"),
        [(324, 5874), (5874, 324), (3, 4), (500, 500), (12_345, 9_000)],
    )
    def test_completions_and_failures_have_one_scale(
        self, completed: int, failed: int
    ) -> None:
        (bar,) = throughput([completed], [failed]).bars
        good, bad = rects(bar)["good"], rects(bar)["bad"]
        assert good[1] / bad[1] == pytest.approx(completed / failed, rel=0.01)

    @pytest.mark.parametrize(("completed", "failed"), [(10_000, 1), (1, 10_000)])
    def test_few_beside_many_have_room_on_the_same_scale(
        self, completed: int, failed: int
    ) -> None:
        chart = throughput([completed], [failed])
        share = chart.zero / (HEIGHT - chart.zero)
        assert share == pytest.approx(chart.top / chart.bottom, rel=0.01)
        assert LEAST < chart.zero < HEIGHT - LEAST

    def test_a_side_without_jobs_takes_no_room(self) -> None:
        failures = throughput([0, 0], [3, 0])
        assert (failures.zero, failures.top, failures.bottom) == (0, 0, 3)
        assert rects(failures.bars[0])["bad"] == (0, HEIGHT)
        completions = throughput([10, 5], [0, 0])
        assert (completions.zero, completions.bottom) == (HEIGHT, 0)

    def test_a_single_one_among_thousands_is_seen(self) -> None:
        last = rects(throughput([10_000, 1], [500, 1]).bars[1])
        assert last["good"][1] == last["bad"][1] == LEAST

    def test_no_bar_leaves_the_plane(self) -> None:
        numbers = [0, 1, 9, 10, 11, 99, 12_345, 7]
        chart = throughput(numbers, list(reversed(numbers)))
        for rect in (rect for bar in chart.bars for rect in bar.rects):
            assert float(rect.y) >= 0
            assert float(rect.y) + float(rect.height) <= HEIGHT + 0.01
            right = float(rect.x) + float(rect.width)
            assert 0 <= float(rect.x) < right <= float(chart.width)

    def test_the_title_and_the_table_say_the_same(self) -> None:
        chart = throughput([1200, 0, 3], [0, 0, 4])
        svg = drawing(html(chart))
        assert svg.attrib["role"] == "img"
        title = svg.find("title")
        assert title is not None
        assert svg.attrib["aria-labelledby"] == title.attrib["id"]
        assert title.text == "The last hour – 1,203 completed, 4 failed"
        rows = table(chart)
        assert rows[0] == ["Minute", "Started", "Completed", "Failed"]
        # The latest first; times in which nothing happened are left out.
        assert [row[2:] for row in rows[1:]] == [["3", "4"], ["1,200", "0"]]

    def test_without_any_job_there_is_no_table(self) -> None:
        chart = throughput([0, 0, 0], [0, 0, 0])
        assert not any(bar.rects for bar in chart.bars)
        assert "Nothing happened" in html(chart)

    def test_the_table_of_a_queue_has_enqueued_jobs(self) -> None:
        chart = throughput([1], [0], put=[12], step=30)
        rows = table(chart)
        assert rows[0][:2] == ["30 minutes from", "Enqueued"]
        assert rows[1][1] == "12"
        assert "12 enqueued" in html(chart)

    def test_numbers_of_attributes_have_a_dot_in_every_language(self) -> None:
        with translation.override("de"):
            svg = drawing(html(throughput([7, 3, 1], [0, 0, 1])))
        for element in svg.iter("rect"):
            for name in ("x", "y", "width", "height"):
                float(element.attrib[name])

    def test_nothing_in_it_needs_an_inline_style_or_script(self) -> None:
        text = html(throughput([7, 3, 1], [0, 0, 1]))
        assert not re.search(r"\sstyle=|\son\w+=|<style|<script", text)


FINE = [1, 2, 0, 0, 0, 0, 0, 0, 0, 10]
"""Durations below a second, by their bins."""


@pytest.mark.parametrize(
    ("chart", "rows"),
    [
        pytest.param(
            histogram(s0=1, s3=2, s4=3, s59=4, m1=5, h23=6, d6=7),
            [
                ["below 1 s", "1"],
                ["from 3 s to 5 s", "5"],
                ["from 30 s to 1 min", "4"],
                ["from 1 min to 2 min", "5"],
                ["from 12 h to 1 d", "6"],
                ["from 4 d to 7 d", "7"],
            ],
            id="bins are put together",
        ),
        pytest.param(
            histogram(FINE, s0=13, s1=3),
            [
                ["below 1 ms", "1"],
                ["from 1 ms to 2 ms", "2"],
                ["from 500 ms to 1 s", "10"],
                ["from 1 s to 2 s", "3"],
            ],
            id="durations below a second are shown apart",
        ),
        pytest.param(
            histogram(FINE, s0=14, s1=3),
            [["below 1 s", "14"], ["from 1 s to 2 s", "3"]],
            id="unless some are known in whole seconds only",
        ),
    ],
)
def test_durations_of_a_histogram(chart: Chart, rows: list[list[str]]) -> None:
    assert table(chart)[1:] == rows


def test_every_bin_belongs_to_one_bar() -> None:
    edges = bin_edges()
    assert len(edges) == 148
    assert set(EDGES[:-1]) <= set(edges)
    for at, begins in enumerate(edges):
        bins = [int(at == n) for n in range(148)]
        chart = charts.histogram(Distribution(1, 0, 0, bins), ident="x", title="x")
        assert [numbers for _words, numbers in chart.rows] == [[1]], begins
    for at in range(len(BELOW_SECOND)):
        chart = histogram([int(at == n) for n in range(len(BELOW_SECOND))], s0=1)
        assert [numbers for _words, numbers in chart.rows] == [[1]], at


def test_only_durations_that_occurred_and_their_neighbours_are_drawn() -> None:
    chart = histogram(m1=3)
    assert len(chart.bars) == 8
    (bar,) = [bar for bar in chart.bars if bar.rects]
    assert bar.words == "from 1 min to 2 min: 3"
    assert rects(bar)["calm"] == (0, HEIGHT)
    # Every second one says where it begins.
    assert [bool(each.label) for each in chart.bars] == [True, False] * 4


def test_a_histogram_without_samples() -> None:
    text = html(histogram())
    assert "Nothing was measured" in text
    assert not list(drawing(text).iter("rect"))


def test_the_title_has_the_mean_and_the_deviation() -> None:
    (title,) = drawing(html(histogram(s5=1200))).findall("title")
    assert title.text == "Runs – 1,200 times; mean 12 s, deviation 3.2 s"
    assert histogram(s5=1).summary.startswith("1 time; ")


@pytest.mark.parametrize(
    ("most", "top"),
    [
        *((0, 1), (1, 1), (2, 2), (7, 8), (9, 10), (11, 12), (13, 15)),
        *((99, 100), (101, 120)),
    ],
)
def test_the_top_is_a_round_number(most: int, top: int) -> None:
    assert round_top(most) == top
