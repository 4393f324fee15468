"""Into which calls a workflow is cut, by its jobs and their dependencies. No server."""

from __future__ import annotations

from typing import Any

import pytest

from django_qless.core import BadArgument, Put, TooBig
from django_qless.core.commands import Commands
from django_qless.core.request import CommandSequence


def jobs(number: int, depends: list[str] | None = None, **options: Any) -> list[Put]:
    """Return so many jobs, each with these dependencies."""
    given = {"data": "1", "depends": depends or []} | options
    return [Put(f"j{each}", "q", "k", **given) for each in range(number)]


def outside(number: int) -> list[str]:
    """Return the ids of so many jobs that exist already."""
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
    ("items", "staged"),
    [
        # 250 jobs are staged by a call, with 1,000 dependencies.
        (jobs(1_001), [250, 250, 250, 250, 1]),
        (jobs(1_250), [250] * 5),
        (jobs(1_251), [250] * 5 + [1]),
        (jobs(501, outside(2)), [250, 250, 1]),
        (jobs(300, outside(4)), [250, 50]),
        (jobs(300, outside(5)), [200, 100]),
        (jobs(9, outside(250)), [4, 4, 1]),
        # More than 250 dependencies of one job follow behind all jobs.
        (jobs(4, outside(251)), [4, 0, 0, 0, 0]),
        (jobs(1, outside(1_001)), [1, 0, 0]),
        (jobs(1, outside(2_000)), [1, 0, 0]),
        # A call has a mebibyte at most.
        (jobs(5, data='"' + "x" * 400_000 + '"'), [2, 2, 1]),
    ],
)
def test_more_is_staged_and_then_released(items: list[Put], staged: list[int]) -> None:
    sequence = build(items)
    calls = ["stage"] * len(staged)
    carried = len(staged) + len(items) // 1_000
    assert names(sequence) == [*calls, "release", *["carry"] * carried]
    assert list(sequence.sizes) == [*staged, *[0] * (1 + carried)]
    for part in sequence.parts[: len(staged)]:
        assert part.args[:2] == ("f", 3600)
    assert sequence.parts[len(staged)].args == ("f", "w", "{}", len(staged))
    assert sequence.parts[-1].args == ("f",)
    assert sequence.combine([]) == "f"


def test_the_many_dependencies_of_a_job_are_all_named() -> None:
    first, second = jobs(2, outside(250))[0], jobs(2, outside(2_001))[1]
    sequence = build([first, second])
    links = [part.args[2:] for part in sequence.parts if "links" in part.args]
    assert [link[:2] for link in links] == [("links", "j1")] * 3
    assert [len(link) - 2 for link in links] == [1_000, 1_000, 1]
    assert [jid for link in links for jid in link[2:]] == outside(2_001)
    (staged,) = [part.args[3] for part in sequence.parts if "jobs" in part.args]
    assert isinstance(staged, tuple)
    # The job that has no more than a call may name is staged with them.
    assert staged.data.count(b'"o249"') == 1
    # Those that are staged again by a repeat are left alone.
    assert staged.data.count(b"\r\nabsent\r\n") == 2
    assert staged.data.count(b"\r\nworkflow\r\n$1\r\nf\r\n") == 2


def test_how_long_what_is_staged_is_kept() -> None:
    assert build(jobs(1_001), staged_seconds=1).parts[0].args[1] == 1
    with pytest.raises(BadArgument, match="staged_seconds must be at least 1"):
        build(jobs(1_001), staged_seconds=0)


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
