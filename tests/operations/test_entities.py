"""Entities as operators change them, in both forms of each method."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from django_qless import entities
from django_qless.core import BadArgument
from django_qless.core.commands.entities import MOST_ENTITIES, Payload
from django_qless.operations.entities import QueueEntities
from django_qless.operations.entity_run import EntityRun
from django_qless.operations.status import NamespaceStatus

Ask = Callable[..., Any]


async def listed(found: Any) -> list[Any]:
    return [each async for each in found]


@pytest.fixture(params=["", "a"], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Calls a method of the queue `orders` in one of its forms."""

    def ask(name: str, *args: Any, of: Any = None) -> Any:
        found = getattr(of or entities["orders"], request.param + name)(*args)
        if inspect.isasyncgen(found):
            return asyncio.run(listed(found))
        if inspect.iscoroutine(found):
            return asyncio.run(found)
        return [*found] if inspect.isgenerator(found) else found

    return ask


@pytest.fixture
def push(qless: Any) -> Callable[..., None]:
    def push(*names: str, each: int = 1) -> None:
        payloads = [
            Payload(name, '{"v":1}', str(n), n) for name in names for n in range(each)
        ]
        qless.push("", "orders", "sync", payloads)

    return push


def fail_all(qless: Any, *, group: str = "bad", verb: str = "retry") -> None:
    """Have a run of each entity fail, to be tried again in an hour, or for good."""
    while held := qless.settle("w", [], 50, ["orders"]).jobs:
        args: tuple[Any, ...] = (group, "it is bad")
        args = (3600, *args) if verb == "retry" else args
        ends = [(each.jid, each.token, verb, args) for each in held]
        assert not qless.settle("w", ends, 0, ()).refused


def test_what_waits(qless: Any, ask: Ask, push: Any) -> None:
    push("a", "b", "c")
    fail_all(qless)
    assert ask("counts").retries == 3
    assert [each.retries for each in ask("counts", of=entities)] == [3]
    assert {row["entity"] for row in ask("rows", "retrying").rows} == {"a", "b", "c"}
    assert ask("run_now", "a") == 1
    assert ask("kill", "b", "b") == 1
    assert ask("delete", "a", "gone") == 1
    assert ask("run_all_now") == 1
    assert ask("counts").dead == 1
    assert entities["orders"]["c"].state == "waiting"


def test_the_status_names_queues_with_dead_ones(qless: Any, push: Any) -> None:
    push("a")
    assert NamespaceStatus.read(qless).dead == {}
    fail_all(qless, verb="fail")
    assert NamespaceStatus.read(qless).dead == {"orders": 1}


def test_all_that_have_failed(qless: Any, ask: Ask, push: Any) -> None:
    push("a", "b", each=3)
    fail_all(qless)
    assert ask("kill_all_failed") == 2
    assert ask("dead_ids") == ["a", "b"]
    push("c")
    fail_all(qless)
    assert ask("delete_all_failed") == 1
    assert ask("counts")[2:8] == (0, 0, 0, 0, 2, 0.0)


def test_the_dead(qless: Any, ask: Ask, push: Any) -> None:
    push("a", "b", "c", each=1)
    fail_all(qless, group="row-gone", verb="fail")
    assert ask("bring_back", "a") == 1
    assert ask("delete_dead", "b") == 1
    assert ask("dead_ids") == ["c"]
    assert ask("bring_back") == 1
    assert ask("delete_dead") == 0
    handle = entities["orders"]["c"]
    assert (handle.state, handle.payload_count) == ("waiting", 1)


def test_more_of_them_than_one_call_takes(qless: Any, ask: Ask, push: Any) -> None:
    names = [f"e{n:04}" for n in range(MOST_ENTITIES + 20)]
    push(*names)
    fail_all(qless)
    assert ask("kill", *names) == len(names)
    assert ask("bring_back", *names) == len(names)
    assert ask("counts").retries == len(names)
    assert ask("kill_all_failed") == len(names)
    assert ask("bring_back") == len(names)
    assert ask("delete", *names) == len(names)


def test_one_that_is_in_the_way_is_passed_over(qless: Any, ask: Ask, push: Any) -> None:
    push("a", "b")
    fail_all(qless, verb="fail")
    qless.put("", "other", entities["orders"]["a"].jid, "x", "{}")
    assert ask("bring_back") == 1
    assert ask("dead_ids") == ["a"]


def test_a_handle_from_asynchronous_code(push: Any) -> None:
    push("a", each=2)
    assert asyncio.run(entities["orders"].aget("a")).payload_count == 2
    assert entities["orders"]["a"].payload_count == 2


@pytest.mark.parametrize("name", ["run_now", "kill", "delete"])
def test_those_of_names_need_one(ask: Ask, name: str) -> None:
    with pytest.raises(ValueError, match="name at least one entity"):
        ask(name)


def test_other_aliases() -> None:
    other = entities["orders"].using_alias("other")
    assert (other.alias, other.queue) == ("other", "orders")
    assert repr(other) == "<QueueEntities of 'orders' in 'other'>"
    assert entities.using_alias("other")["orders"].alias == "other"


def test_each_method_has_both_forms() -> None:
    public = {name for name in vars(QueueEntities) if not name.startswith("_")}
    plain = {name for name in public if f"a{name}" in public}
    assert public - plain - {f"a{name}" for name in plain} == {"aget", "using_alias"}


@pytest.mark.parametrize("change", ["kill", "revive", "delete-dead"])
def test_a_run_ends_when_others_have_been_faster(
    qless: Any, push: Any, change: str
) -> None:
    push("a", "b")
    fail_all(qless, verb="retry" if change == "kill" else "fail")
    run = EntityRun.on_all(qless, change, "orders")
    assert (run.total, run.ended) == (2, False)
    entities["orders"].delete("a", "b")
    entities["orders"].delete_dead("a", "b")
    run = run.step(qless, 0.0)
    assert (run.finished, run.done, run.left_alone) == (True, 0, 2)
    assert run.step(qless, 0.0) is run


def test_one_that_runs_is_not_killed(qless: Any, push: Any) -> None:
    push("a")
    [held] = qless.settle("w", [], 1, ["orders"]).jobs
    assert entities["orders"].kill("a") == 0
    assert entities["orders"]["a"].state == "running"
    assert not qless.settle(
        "w", [(held.jid, held.token, "complete", ())], 0, ()
    ).refused


def test_a_run_takes_as_many_as_one_call() -> None:
    names = [f"o-{n}" for n in range(MOST_ENTITIES)]
    run = EntityRun.on("kill", "orders", [*names, names[0]])
    assert (run.total, run.entities, run.chosen) == (len(names), names, names)
    with pytest.raises(BadArgument, match=r"251 entities .* at most 250"):
        EntityRun.on("kill", "orders", [*names, "one-more"])


def test_how_far_a_run_is() -> None:
    run = EntityRun("kill", "orders", None, 5, done=3)
    assert (run.progress, run.left_alone, run.ended) == (3, 0, False)
    # More have come meanwhile than there were.
    assert replace(run, done=7).progress == 5
    assert replace(run, stopped=True).ended
    ended = replace(run, finished=True)
    assert (ended.progress, ended.left_alone, ended.ended) == (5, 2, True)
    assert replace(ended, done=7).left_alone == 0
    assert EntityRun(**ended.as_dict()) == ended
