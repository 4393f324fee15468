"""Charts: what they draw, and the tables that say the same."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from django.template.loader import render_to_string
from django.utils import translation

from django_qless.admin import charts
from django_qless.admin.charts.histogram import EDGES, beginnings
from django_qless.admin.charts.plane import HEIGHT, LEAST, round_top
from django_qless.core import Throughput
from django_qless.core.commands.queues import BELOW_SECOND, Distribution
from tests.admin.reading import Page

MINUTE = 29_000_000  # of the epoch


def throughput(completed: list[int], failed: list[int], **more: Any) -> Any:
    zeros = [0] * len(completed)
    counted = Throughput(
        **{
            "first": MINUTE,
            "step": 1,
            "put": None,
            "started": zeros,
            "completed": completed,
            "failed": failed,
            **more,
        }
    )
    return charts.throughput(counted, ident="hour", title="The last hour")


def distribution(**times: int) -> Distribution:
    """Return one that counted so many in bins, such as s5=3 or m1=2."""
    sizes = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    bins = [0] * 148
    for name, count in times.items():
        bins[beginnings().index(int(name[1:]) * sizes[name[0]])] = count
    return Distribution(sum(bins), 12.5, 3.25, bins)


def html(chart: Any, kind: str) -> str:
    return render_to_string(
        f"admin/django_qless/parts/chart_{kind}.html", {"chart": chart}
    )


def drawing(text: str) -> ElementTree.Element:
    """Return the SVG, which must be XML."""
    found = re.search(r"<svg.*?</svg>", text, re.DOTALL)
    assert found
    return ElementTree.fromstring(found[0])


class TestThroughput:
    def test_bars_stand_on_a_line_and_failures_hang_from_it(self) -> None:
        chart = throughput([10, 5, 0], [0, 2, 1])
        zero = float(chart.zero)
        first, second, third = chart.bars
        assert zero == HEIGHT * 10 / 12
        assert float(first.completed.y) == 0
        assert float(first.completed.height) == zero
        assert first.failed is None
        assert float(second.completed.height) == pytest.approx(zero / 2, abs=0.01)
        assert float(second.failed.y) == zero
        assert float(second.failed.height) == pytest.approx(HEIGHT - zero, abs=0.01)
        assert third.completed is None
        assert float(third.failed.height) == pytest.approx(
            (HEIGHT - zero) / 2, abs=0.01
        )
        assert (chart.top, chart.bottom) == (10, 2)

    @pytest.mark.parametrize(
        ("completed", "failed"),
        [(324, 5874), (5874, 324), (3, 4), (500, 500), (12_345, 9_000)],
    )
    def test_completions_and_failures_have_one_scale(
        self, completed: int, failed: int
    ) -> None:
        (bar,) = throughput([completed], [failed]).bars
        heights = float(bar.completed.height), float(bar.failed.height)
        assert heights[0] / heights[1] == pytest.approx(completed / failed, rel=0.01)

    def test_few_beside_many_have_room_on_the_same_scale(self) -> None:
        for numbers in ((10_000, 1), (1, 10_000)):
            chart = throughput([numbers[0]], [numbers[1]])
            assert float(chart.zero) / (HEIGHT - float(chart.zero)) == pytest.approx(
                chart.top / chart.bottom, rel=0.01
            )
            assert LEAST < float(chart.zero) < HEIGHT - LEAST

    def test_without_completions_all_room_is_for_failures(self) -> None:
        chart = throughput([0, 0], [3, 0])
        assert (float(chart.zero), chart.top, chart.bottom) == (0, 0, 3)
        assert float(chart.bars[0].failed.height) == HEIGHT

    def test_without_failures_all_room_is_for_completions(self) -> None:
        chart = throughput([10, 5], [0, 0])
        assert float(chart.zero) == HEIGHT
        assert chart.bottom == 0

    def test_a_single_one_among_thousands_is_seen(self) -> None:
        chart = throughput([10_000, 1], [500, 1])
        assert float(chart.bars[1].completed.height) == LEAST
        assert float(chart.bars[1].failed.height) == LEAST

    def test_nothing_is_a_chart_as_well(self) -> None:
        chart = throughput([0, 0, 0], [0, 0, 0])
        assert all(bar.completed is bar.failed is None for bar in chart.bars)
        assert "Nothing happened" in html(chart, "throughput")

    def test_no_bar_leaves_the_plane(self) -> None:
        numbers = [0, 1, 9, 10, 11, 99, 12_345, 7]
        chart = throughput(numbers, list(reversed(numbers)))
        for bar in chart.bars:
            for rect in (bar.completed, bar.failed, bar.whole):
                if rect is not None:
                    assert float(rect.y) >= 0
                    assert float(rect.y) + float(rect.height) <= HEIGHT + 0.01
                    right = float(rect.x) + float(rect.width)
                    assert 0 <= float(rect.x) < right <= float(chart.width)

    def test_the_drawing_is_told_in_words_and_in_a_table(self) -> None:
        text = html(throughput([1200, 0, 3], [0, 0, 4]), "throughput")
        svg = drawing(text)
        assert svg.attrib["role"] == "img"
        title = svg.find("title")
        assert title is not None
        assert svg.attrib["aria-labelledby"] == title.attrib["id"]
        assert title.text == "The last hour: 1,203 completed, 4 failed"
        rows = Page(text).table("The last hour")
        assert rows[0] == ["Minute", "Started", "Completed", "Failed"]
        # The latest first; what was nothing is left out.
        assert [row[2:] for row in rows[1:]] == [["3", "4"], ["1,200", "0"]]

    def test_of_a_queue_the_table_says_how_many_were_put(self) -> None:
        text = html(throughput([1], [0], put=[12], step=30), "throughput")
        rows = Page(text).table("The last hour")
        assert rows[0][:2] == ["30 minutes from", "Put"]
        assert rows[1][1] == "12"
        assert "12 put" in text

    def test_numbers_of_attributes_have_a_dot_in_every_language(self) -> None:
        with translation.override("de"):
            chart = throughput([7, 3, 1], [0, 0, 1])
            svg = drawing(html(chart, "throughput"))
        for element in svg.iter("rect"):
            for name in ("x", "y", "width", "height"):
                float(element.attrib[name])

    def test_nothing_in_it_needs_an_inline_style_or_script(self) -> None:
        text = html(throughput([7, 3, 1], [0, 0, 1]), "throughput")
        assert not re.search(r"\sstyle=|\son\w+=|<style|<script", text)


class TestHistogram:
    def test_lengths_are_put_together(self) -> None:
        chart = charts.histogram(
            distribution(s0=1, s3=2, s4=3, s59=4, m1=5, h23=6, d6=7),
            ident="wait",
            title="Waits",
        )
        rows = Page(html(chart, "histogram")).table("Waits")
        assert rows[1:] == [
            ["below 1 s", "1"],
            ["from 3 s to 5 s", "5"],
            ["from 30 s to 1 min", "4"],
            ["from 1 min to 2 min", "5"],
            ["from 12 h to 1 d", "6"],
            ["from 4 d to 7 d", "7"],
        ]

    def test_what_is_below_a_second_is_shown_apart(self) -> None:
        found = distribution(s0=13, s1=3)
        found = replace(found, below_second=[1, 2, 0, 0, 0, 0, 0, 0, 0, 10])
        chart = charts.histogram(found, ident="run", title="Runs")
        rows = Page(html(chart, "histogram")).table("Runs")
        assert rows[1:] == [
            ["below 1 ms", "1"],
            ["from 1 ms to 2 ms", "2"],
            ["from 500 ms to 1 s", "10"],
            ["from 1 s to 2 s", "3"],
        ]

    def test_what_is_known_in_whole_seconds_only_stays_together(self) -> None:
        found = distribution(s0=14, s1=3)
        found = replace(found, below_second=[1, 2, 0, 0, 0, 0, 0, 0, 0, 10])
        chart = charts.histogram(found, ident="run", title="Runs")
        rows = Page(html(chart, "histogram")).table("Runs")
        assert rows[1:] == [["below 1 s", "14"], ["from 1 s to 2 s", "3"]]

    def test_every_bin_below_a_second_belongs_to_a_bar(self) -> None:
        for at in range(len(BELOW_SECOND)):
            fine = [int(at == n) for n in range(len(BELOW_SECOND))]
            found = replace(distribution(s0=1), below_second=fine)
            chart = charts.histogram(found, ident="x", title="x")
            assert [bar.count for bar in chart.bars].count(1) == 1, at

    def test_every_bin_of_the_core_belongs_to_a_bar(self) -> None:
        assert len(beginnings()) == 148
        for at, begins in enumerate(beginnings()):
            bins = [0] * 148
            bins[at] = 1
            chart = charts.histogram(Distribution(1, 0, 0, bins), ident="x", title="x")
            assert [bar.count for bar in chart.bars].count(1) == 1, begins
        assert set(EDGES[:-1]) <= set(beginnings())

    def test_only_the_lengths_that_occurred_are_drawn_and_their_neighbours(
        self,
    ) -> None:
        chart = charts.histogram(distribution(m1=3), ident="x", title="x")
        assert len(chart.bars) == 8
        (bar,) = [bar for bar in chart.bars if bar.count]
        assert bar.lengths == "from 1 min to 2 min"
        assert float(bar.rect.height) == HEIGHT  # type: ignore[union-attr]

    def test_without_samples(self) -> None:
        chart = charts.histogram(distribution(), ident="x", title="x")
        text = html(chart, "histogram")
        assert "Nothing was measured" in text
        assert not list(drawing(text).iter("rect"))

    def test_its_words_say_the_mean_and_the_deviation(self) -> None:
        chart = charts.histogram(distribution(s5=1200), ident="x", title="Waits")
        (title,) = drawing(html(chart, "histogram")).findall("title")
        assert title.text == "Waits: 1,200 times; mean 12 s, deviation 3.2 s"
        once = charts.histogram(distribution(s5=1), ident="x", title="Waits")
        assert once.summary.startswith("1 time; ")


@pytest.mark.parametrize(
    ("most", "top"),
    [
        (0, 1),
        (1, 1),
        (2, 2),
        (7, 8),
        (9, 10),
        (11, 12),
        (13, 15),
        (99, 100),
        (101, 120),
    ],
)
def test_the_top_is_a_round_number(most: int, top: int) -> None:
    assert round_top(most) == top
