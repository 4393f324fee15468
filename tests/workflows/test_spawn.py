"""Jobs that running jobs spawn: what waits for the one waits for the others."""

from __future__ import annotations

import pytest

from django_qless import workflow
from django_qless.core import Put
from django_qless.exceptions import (
    InvalidOption,
)
from tests.jobs_app import flows
from tests.jobs_app.flows import gather, step

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("spawning", [flows.spawning, flows.aspawning])
def test_who_waits_for_a_job_waits_for_what_it_spawns(qless, work, spawning) -> None:
    flow = workflow()
    first = flow.add(spawning.args("a", "b"))
    last = flow.add(gather.args(), after=[first])
    handle = flow.enqueue()
    work()
    assert flows.ran[-1] == "gather"
    assert sorted(flows.ran[1:-1]) == ["a", "b"]
    jids = first.handle.result()
    assert last.handle.result() == {
        first.jid: jids,
        **dict(zip(jids, ["a", "b"], strict=True)),
    }
    now = handle.refresh()
    assert (now.state, now.progress.total) == ("complete", 4)


def test_class_jobs_spawn_and_read_results_too(qless, work) -> None:
    first = step.delay("a")
    spawning = flows.Spawning.using(after=[first]).delay({})
    gather.using(after=[spawning]).delay()
    work()
    assert flows.ran == ["a", "spawning", "a again", "gather"]


def test_nested_spawns_are_all_waited_for(qless, work) -> None:
    first = flows.nested.delay(5)
    gather.using(after=[first]).delay()
    work()
    assert flows.ran == [*(f"nested {n}" for n in range(5, -1, -1)), "gather"]


def start(qless, *queues: str):
    """Reserve a job as a worker that dies with it."""
    [job] = qless.settle("dead", [], 1, queues).jobs
    return job


@pytest.mark.parametrize("state", ["waiting", "running", "complete", "failed"])
def test_job_that_runs_again_leaves_alone_what_it_has_spawned(
    qless, work, state
) -> None:
    root = flows.spawning_fixed.delay("a")
    last = gather.using(after=[root]).delay()
    died = start(qless, "default")
    qless.spawn(
        died.jid,
        died.token,
        "dead",
        [
            Put("a", "side", flows.aside.name, '{"v":1,"args":["a"]}'),
        ],
    )
    child = None if state == "waiting" else start(qless, "side")
    if state == "complete":
        qless.complete(child.jid, child.token, "side", child.data)
    elif state == "failed":
        qless.fail(child.jid, child.token, "group", "message")
    qless.timeout(root.jid)
    assert work("default") == (2 if state == "complete" else 1)
    assert qless.get("a").state == state
    assert root.result() == [["a", False]]
    if state == "running":
        assert last.refresh().state == "depends"
        qless.complete(child.jid, child.token, "side", child.data)
        assert work("default") == 1
    assert flows.ran.count("a") == 0


def test_job_that_is_put_again_spawns_again(qless, work) -> None:
    for _ in range(2):
        flows.spawning_fixed.using(jid="root").delay("a")
        assert work() == 2
    assert flows.ran == ["a", "a"]


def test_spawning_respects_transactions(qless, each_work) -> None:
    kept = flows.spawning_in_a_transaction.delay()
    undone = flows.spawning_in_a_transaction.delay(fail=True)
    assert each_work() == 3
    assert (kept.result(), undone.result()) == ("waiting", "rolled back")
    assert flows.ran == ["at commit"]


def test_spawning_what_is_none(qless, work) -> None:
    @flows.job(name="spawns-wrong")
    def wrong() -> list[str]:
        texts = []
        for bad in (["x"], [step.using(alias="other").args("a")]):
            try:
                flows.current_job().spawn(bad)
            except InvalidOption as error:
                texts.append(str(error))
        many = [step.delay(str(n)) for n in range(1001)]
        try:
            flows.current_job().spawn([step.using(after=many).args("a")])
        except InvalidOption as error:
            texts.append(str(error))
        assert flows.current_job().spawn([]) == []
        return texts

    handle = wrong.delay()
    work()
    one, two, three = handle.result()
    assert "spawn() takes what .args() returns" in one
    assert "can spawn only there" in two
    assert "after= names 1,001 jobs" in three


def test_a_coroutine_may_spawn_nothing(qless, loop_work) -> None:
    handle = flows.aspawning.delay()
    assert loop_work() == 1
    assert handle.result() == []
