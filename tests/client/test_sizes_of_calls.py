"""How much one call asks for or names at most: it is cut, split or refused. No server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_qless.core import BadArgument, Put, TooBig
from django_qless.core.commands import Commands
from django_qless.core.commands.entities import (
    Payload,
    _parts,
    entity_jid,
    entity_name,
)
from django_qless.core.request import Command, CommandSequence


def build(name: str, *args: Any, **options: Any) -> Any:
    """Return what a command of the client would send."""
    of_no_client = Commands()
    return getattr(Commands, name).build(of_no_client, *args, **options)


def jids(number: int) -> list[str]:
    return [f"j{each}" for each in range(number)]


# A call for a number of things, its largest number, and where that is among the arguments.
CUT: list[tuple[Callable[[int], Any], int, int]] = [
    (lambda n: build("queues_part", 0, n), 500, 1),
    (lambda n: build("peek", "q", n), 250, 1),
    (lambda n: build("pop", "q", "w", n), 250, 2),
    (lambda n: build("jobs", "waiting", "q", 0, n), 1_000, 3),
    (lambda n: build("completed", 0, n), 1_000, 2),
    (lambda n: build("canceled", 0, n), 1_000, 2),
    (lambda n: build("tagged", "t", 0, n), 1_000, 3),
    (lambda n: build("top_tags", 0, n), 1_000, 2),
    (lambda n: build("failed_jobs", "g", 0, n), 1_000, 2),
    (lambda n: build("unfail", "q", "g", n), 1_000, 2),
    (lambda n: build("briefs", [], most=n), 1_000, 0),
    (lambda n: build("placed_briefs", [], most=n), 1_000, 0),
    (lambda n: build("briefs", [("tracked", "", 0, n)]), 1_000, 4),
    (lambda n: build("search", [], most=n), 1_000, 0),
    (lambda n: build("failure_groups", 0, n), 250, 2),
    (lambda n: build("job_view", "j", links=n), 250, 1),
    (lambda n: build("job_view", "j", history=n), 1_000, 2),
    (lambda n: build("worker_views", 0, n), 1_000, 1),
    (lambda n: build("tag_counts", 0, n), 1_000, 1),
    (lambda n: build("tracked_jids", 0, n), 1_000, 1),
    (lambda n: build("schedules_in", "q", 0, n), 1_000, 2),
    (lambda n: build("schedule_list", 0, n), 1_000, 1),
    (lambda n: build("schedule_due", "w", n), 1_000, 1),
    (lambda n: build("workflow_jobs", "f", 0, n), 1_000, 2),
]


@pytest.mark.parametrize(("call", "most", "place"), CUT)
def test_a_number_is_cut_to_what_one_call_returns(
    call: Callable[[int], Command[Any]], most: int, place: int
) -> None:
    for number in (1, most - 1, most):
        assert call(number).args[place] == number
    for number in (most + 1, 10 * most):
        assert call(number).args[place] == most
    with pytest.raises(BadArgument):
        call(-1)


@pytest.mark.parametrize("number", [0, 1])
def test_nothing_may_be_asked_for_where_that_makes_sense(number: int) -> None:
    for name, args in (("peek", ("q",)), ("pop", ("q", "w")), ("unfail", ("q", "g"))):
        assert build(name, *args, number).args[-1] == number
    assert build("job_view", "j", links=number).args[1] == number
    for call in (
        lambda: build("job_view", "j", history=0),
        lambda: build("schedule_due", "w", 0),
        lambda: build("throughput", "q", 0, 1, 0),
        lambda: build("retry_workflow", "f", -1),
        lambda: build("minutes", "q", -1, 5),
        lambda: build("minutes", "q", 0, -1),
    ):
        with pytest.raises(BadArgument):
            call()
    assert build("job_view", "j", history=1).args[2] == 1
    assert build("throughput", "q", 7, 7, 1).args == ("q", 7, 7, 1)
    with pytest.raises(BadArgument, match="last must not be before first, 7, as 6 is"):
        build("throughput", "q", 7, 6, 1)


# A call that names several, and how many of them one command has at most.
SPLIT: list[tuple[Callable[[int], Any], int]] = [
    (lambda n: build("multiget", jids(n)), 250),
    (lambda n: build("results", jids(n)), 1_000),
    (lambda n: build("results_text", jids(n)), 1_000),
    (lambda n: build("results_gone", jids(n)), 1_000),
    (lambda n: build("revive", jids(n)), 1_000),
    (lambda n: build("lag", jids(n)), 500),
    (lambda n: build("due", jids(n)), 1_000),
    (lambda n: build("stats_counters", 0, jids(n)), 1_000),
    (lambda n: build("beat", "w", "", [(each, "1") for each in jids(n)]), 1_000),
    (lambda n: build("bring_back", "q", jids(n)), 250),
    (lambda n: build("delete_dead", "q", jids(n)), 250),
    (lambda n: build("kill_entities", "q", jids(n)), 250),
    (lambda n: build("drop_entities", "q", jids(n)), 250),
    (lambda n: build("put_many", "", [Put(j, "q", "k", "1") for j in jids(n)]), 1_000),
    (lambda n: build("spawn", "a", "1", "", [Put(j, "q", "k", "1") for j in jids(n)]), 1_000),
    (lambda n: build("push", "", "q", "k", [Payload(j, "{}", "1") for j in jids(n)]), 1_000),
]  # fmt: skip


@pytest.mark.parametrize(("call", "most"), SPLIT)
def test_a_long_list_has_parts(
    call: Callable[[int], CommandSequence[Any]], most: int
) -> None:
    assert call(most).sizes == (most,)
    assert call(most + 1).sizes == (most, 1)
    long = call(2 * most + 3)
    assert long.sizes == (most, most, 3)
    assert len(long.parts) == 3


def test_each_name_of_a_long_list_is_in_one_part() -> None:
    names = jids(2_600)
    for call, head, most in (
        (build("results", names), 0, 1_000),
        (build("stats_counters", 5, names), 1, 1_000),
        (build("kill_entities", "q", names), 1, 250),
    ):
        found = [name for part in call.parts for name in part.args[head:]]
        assert found == names
        assert max(len(part.args) for part in call.parts) == head + most
    beats = build("beat", "w", "", [(name, "1", 0.5) for name in names]).parts
    assert [part.args[2] for part in beats] == [1_000, 1_000, 600]
    assert [word for part in beats for word in part.args[3::3]] == names


def test_an_empty_list_of_entities_is_one_call_and_of_others_none() -> None:
    assert [part.args for part in build("kill_entities", "q").parts] == [("q",)]
    assert [part.args for part in build("beat", "w", "", []).parts] == [("w", "", 0)]
    for name in ("multiget", "results", "lag", "revive"):
        assert build(name, []).parts == ()


# What is named by one call, or not at all.
REFUSED: list[tuple[Callable[[int], Any], int]] = [
    (lambda n: build("cancel", jids(n)), 1_000),
    (lambda n: build("timeout", jids(n)), 1_000),
    (lambda n: build("brief", jids(n)), 1_000),
    (lambda n: build("survey", jids(n)), 1_000),
    (lambda n: build("pause", jids(n)), 1_000),
    (lambda n: build("schedules_of", jids(n)), 1_000),
    (lambda n: build("failed_of", jids(n)), 200),
    (lambda n: build("recurring_of", jids(n)), 200),
    (lambda n: build("cancel_each", jids(n)), 250),
    (lambda n: build("run_each", jids(n)), 250),
    (lambda n: build("move_each", jids(n), "q"), 250),
    (lambda n: build("untrack_each", jids(n)), 250),
    (lambda n: build("forget_once", jids(n)), 1_000),
    (lambda n: build("tag", "j", jids(n)), 32),
    (lambda n: build("recur_tag", "j", jids(n)), 32),
    # Bytes.
    (lambda n: build("pause", "q", "r" * n), 500),
    (lambda n: build("pause", "q", "", "b" * n), 255),
    (lambda n: build("log", "j", "m" * n), 65_536),
]


@pytest.mark.parametrize(("call", "most"), REFUSED)
def test_too_many_are_refused(call: Callable[[int], Any], most: int) -> None:
    call(most)
    with pytest.raises(TooBig):
        call(most + 1)


# Names, which are no large values.
@pytest.mark.parametrize(
    ("call", "most"),
    [
        (lambda n: build("config_get", "o" * n), 510),
        (lambda n: build("put_workflow", "", "f" * n, [Put("j", "q", "k", "1")]), 128),
        (lambda n: build("schedule_set", "s" * n, "q", "k", "1", every=1), 200),
        (lambda n: build("entity", "q", "e" * n), 255),
        (lambda n: build("tag_each", "j", "t" * n), 255),
        (lambda n: build("detached_run", "j" * n), 65_536),
    ],
)
def test_a_name_that_is_too_long(call: Callable[[int], Any], most: int) -> None:
    call(most)
    with pytest.raises(BadArgument):
        call(most + 1)


def test_the_name_of_an_entity() -> None:
    for name in ("e", "ü" * 127 + "e", "a b/c"):
        assert entity_name(name) == name
    for name in ("", "ü" * 128, 5, None):
        with pytest.raises(BadArgument, match="an entity must be a text of 1 to 255"):
            entity_name(name)  # type: ignore[arg-type]
    # Of its job: workers and other versions must find the same one.
    assert entity_jid("q", "e") == "entity-8a66cf314c173e9fea6fb44b7bcda580fc322a29"
    assert entity_jid("q", "e") != entity_jid("qe", "")


def test_a_payload_that_is_too_large_for_company_is_alone() -> None:
    small, large = (
        Payload("e", "{}", "1"),
        Payload("e", "{}", '"' + "x" * 700_000 + '"'),
    )
    parts = list(_parts([small, large, small, large, large]))
    assert [len(part) for part in parts] == [1, 1, 1, 1, 1]
    assert list(_parts([])) == []
    assert [len(part) for part in _parts([large])] == [1]
