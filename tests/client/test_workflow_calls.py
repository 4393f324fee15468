"""Into which calls a workflow is cut, by its jobs and their dependencies. No server."""

from __future__ import annotations

from typing import Any

import pytest

from django_qless.core import BadArgument, Put, TooBig
from django_qless.core.commands import Commands
from django_qless.core.request import CommandSequence


def jobs(number: int, depends: list[str] | None = None, **options: Any) -> list[Put]:
    """Return a number of jobs, each with these dependencies."""
    given = {"data": "1", "depends": depends or []} | options
    return [Put(f"j{each}", "q", "k", **given) for each in range(number)]


def outside(number: int) -> list[str]:
    """Return the ids of a number of jobs that exist already."""
    return [f"o{each}" for each in range(number)]


def build(items: list[Put], **options: Any) -> CommandSequence[str]:
    call = Commands.put_workflow
    sequence: CommandSequence[str] = call.build(Commands(), "w", "f", items, **options)
    assert len(sequence.parts) == len(sequence.sizes)
    assert sum(sequence.sizes) == len(items)
    return sequence


def names(sequence: CommandSequence[str]) -> list[str]:
    return [part.name.removeprefix("workflow.") for part in sequence.parts]


@pytest.mark.parametrize(
    "items",
    [
        jobs(1),
        jobs(1_000),
        jobs(1, outside(1_000)),
        jobs(4, outside(250)),
        jobs(1_000, outside(1)),
    ],
)
def test_what_one_call_can_have_is_put_by_one(items: list[Put]) -> None:
    sequence = build(items, meta='{"m":1}')
    assert names(sequence) == ["put"]
    (part,) = sequence.parts
    assert part.args[:3] == ("f", "w", '{"m":1}')
    assert sequence.combine(["f"]) == "f"


@pytest.mark.parametrize(
    ("items", "put"),
    [
        # A call puts at most 1,000 jobs, with 1,000 dependencies.
        (jobs(1_001), [1_000, 1]),
        (jobs(2_500), [1_000, 1_000, 500]),
        (jobs(501, outside(2)), [500, 1]),
        (jobs(300, outside(5)), [200, 100]),
        (jobs(9, outside(250)), [4, 4, 1]),
        # A call has a mebibyte at most.
        (jobs(5, data='"' + "x" * 400_000 + '"'), [2, 2, 1]),
    ],
)
def test_more_is_put_in_parts_and_then_released(
    items: list[Put], put: list[int]
) -> None:
    sequence = build(items)
    assert names(sequence) == ["begin", *["put.many"] * len(put), "release"]
    assert list(sequence.sizes) == [0, *put, 0]
    first, *parts, last = sequence.parts
    assert (first.args, last.args) == (("f", "{}"), ("f", len(items)))
    assert {part.args[0] for part in parts} == {"w"}
    assert sequence.combine([]) == "f"


def test_what_is_refused_is_undone() -> None:
    sequence = build(jobs(1_001))
    assert sequence.undo is not None
    assert (sequence.undo.name, sequence.undo.args) == ("workflow.cancel", ("f",))
    assert build(jobs(1)).undo is None


def test_the_many_dependencies_of_a_job_are_all_named() -> None:
    first, second, third = (
        jobs(3, outside(number))[n] for n, number in enumerate((250, 3_100, 3))
    )
    second = second._replace(met=outside(50) + [f"o{n}" for n in range(1_000, 1_050)])
    sequence = build([first, second, third])
    assert names(sequence) == [
        *("begin", "put.many", "put.many", "depends", "depends", "depends", "depends"),
        *("put.many", "release"),
    ]
    links = [part.args for part in sequence.parts if part.name == "depends"]
    assert [link[:2] for link in links] == [*[("j1", "on")] * 3, ("j1", "met")]
    assert [len(link) - 2 for link in links] == [1_000, 1_000, 50, 50]
    named = [jid for link in links for jid in link[2:]]
    assert sorted(named) == sorted(outside(3_100)[1_000:])
    assert sequence.parts[-1].args == ("f", 3 + 2_100)
    _, _, columns, *values = sequence.parts[2].args
    row = dict(zip(str(columns).split(), values, strict=True))
    assert str(row["depends"]).count('"o999"') == 1
    assert "met" in row


@pytest.mark.parametrize("name", ["f", "F-1_2.3~4", "0" * 128])
def test_the_id_of_a_workflow(name: str) -> None:
    (part,) = Commands.put_workflow.build(Commands(), "w", name, jobs(1)).parts
    assert part.args[0] == name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ü", "a\n", "²", "0" * 129, 5])
def test_what_is_no_id_of_a_workflow(name: Any) -> None:
    with pytest.raises(BadArgument, match="id "):
        Commands.put_workflow.build(Commands(), "w", name, jobs(1))


def test_what_belongs_to_a_workflow_is_checked() -> None:
    for meta in ("[]", "", None):
        with pytest.raises(BadArgument, match="meta must be the JSON text"):
            build(jobs(1), meta=meta)
    with pytest.raises(TooBig, match="meta"):
        build(jobs(1), meta="{" + "x" * 65_536)
    with pytest.raises(BadArgument, match="item 1"):
        build([*jobs(1), Put("", "q", "k", "1")])
