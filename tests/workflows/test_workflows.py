"""Workflows and batches: what is enqueued, in which order it runs, what its handle can do."""

from __future__ import annotations

import asyncio
import threading

import pytest
from django.db import transaction
from django.test import override_settings

from django_qless import WorkflowHandle, batch, workflow
from django_qless.core import DependencyCycle, JobNotFound, NotReplicated
from django_qless.exceptions import (
    InvalidOption,
    JobGone,
    NotPut,
    ResultNotReady,
)
from django_qless.signals import job_enqueued
from tests.jobs_app import flows
from tests.jobs_app.flows import aside, canceling, gather, only_one, step

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_workflow_runs_in_its_order(qless, work) -> None:
    flow = workflow("nightly")
    a = flow.add(step.args("a"))
    b = flow.add(step.args("b"), after=[a])
    flow.add(step.args("c"), after=[a, b])
    flow.add(step.args("d"), after=b)
    handle = flow.enqueue()
    assert (handle.name, handle.state, handle.progress.total) == (
        "nightly",
        "running",
        4,
    )
    assert a.handle.created is True
    assert a.handle.refresh().workflow == handle.id
    assert work() == 4
    assert flows.ran[:2] == ["a", "b"]
    now = handle.refresh()
    assert (now.state, now.name, now.progress) == (
        "complete",
        "nightly",
        (4, 4, 0, 0, 0),
    )
    assert now.finished >= now.created
    assert [job.jid for job in now.jobs()][:2] == [a.jid, b.jid]
    assert handle.wait(0) == handle == WorkflowHandle("default", handle.id).refresh()
    assert len({handle, now}) == 1


def test_as_a_context_manager(qless, work) -> None:
    with workflow() as flow:
        flow.add(step.args("a"))
    assert flow.handle.refresh().state == "running"
    other = workflow()
    with pytest.raises(ZeroDivisionError), other:
        raise ZeroDivisionError
    assert other.handle is None
    with workflow() as flow:
        flow.add(step.args("c"))
        flow.enqueue()  # So not a second time at the end.
    work()
    assert flows.ran == ["a", "c"]


def test_async(qless, work) -> None:
    async def run():
        async with workflow("w") as flow:
            a = flow.add(step.args("a"))
            flow.add(gather.args(), after=[a])
        other = workflow()
        other.add(step.args("b"))
        handle = await other.aenqueue()
        waiting = asyncio.create_task(flow.handle.await_(20))
        await asyncio.to_thread(work)
        now = await waiting
        return now, await now.ajobs(), await handle.arefresh()

    now, jobs, other = asyncio.run(run())
    assert (now.state, other.state) == ("complete", "complete")
    assert [job.name for job in jobs] == [step.name, gather.name]


def test_the_results_of_dependencies(qless, work) -> None:
    flow = workflow()
    nodes = [flow.add(step.args(name)) for name in "zyx"]
    quiet = flow.add(flows.silent.args())
    both = [
        flow.add(each.args(), after=[nodes[2], quiet, nodes[0], nodes[1]])
        for each in (gather, flows.agather)
    ]
    flow.enqueue()
    work()
    for node in both:
        found = node.handle.result()
        assert list(found.items()) == [
            (nodes[2].jid, "x"),
            (nodes[0].jid, "z"),
            (nodes[1].jid, "y"),
        ]


def test_jobs_outside_are_waited_for(qless, work) -> None:
    outside = step.delay("outside")
    other = step.using(queue="later").delay("other")
    flow = workflow()
    flow.add(step.args("a"), after=[outside])
    flow.add(step.using(after=[other]).args("b"))
    flow.enqueue()
    assert work("default") == 2
    assert flows.ran == ["outside", "a"]
    assert work() == 2


# On commit.


def test_a_commit_enqueues_it_and_a_rollback_does_not(qless, work) -> None:
    with transaction.atomic():
        flow = workflow("w")
        node = flow.add(step.args("a"))
        handle = flow.enqueue()
        assert (handle.pending, handle.state, node.handle.state) == (
            True,
            "pending",
            "pending",
        )
        for ask in (handle.refresh, handle.cancel, handle.wait, handle.jobs):
            with pytest.raises(NotPut, match="is not enqueued yet"):
                ask()
        assert qless.queues() == []
    assert (handle.pending, node.handle.pending) == (False, False)
    with transaction.atomic():
        undone = workflow("w")
        undone.add(step.args("b"))
        gone = undone.enqueue()
        transaction.set_rollback(True)
    assert gone.state == "rolled back"
    assert qless.workflow(gone.id) is None
    with transaction.atomic():
        with transaction.atomic():
            inner = batch([step.args("c")]).enqueue()
            transaction.set_rollback(True)
        now = workflow(on_commit=False)
        now.add(step.args("d"))
        assert now.enqueue().refresh().state == "running"
    assert inner.state == "rolled back"
    work()
    assert flows.ran == ["a", "d"]


def test_it_is_not_enqueued_before_what_it_waits_for(qless) -> None:
    with transaction.atomic():
        outside = step.delay("outside")
        flow = workflow(on_commit=False)
        flow.add(step.args("a"), after=[outside])
        with pytest.raises(NotPut, match=f"would be enqueued before job {outside.jid}"):
            flow.enqueue()
    assert flow.enqueue().refresh().progress.total == 1


def test_an_unknown_dependency_enqueues_nothing(qless) -> None:
    flow = workflow()
    flow.add(step.args("a"))
    flow.add(step.using(after=["nothing"]).args("b"))
    with pytest.raises(JobNotFound, match="Job nothing does not exist"):
        flow.enqueue()
    assert qless.queues() == []


# What cannot be.


def test_a_cycle_is_refused_by_the_names_of_its_jobs(qless) -> None:
    flow = workflow("round")
    a = flow.add(step.args("a"))
    b = flow.add(aside.args("b"), after=[a])
    c = flow.add(gather.args(), after=[b])
    a.after(c)
    with pytest.raises(
        DependencyCycle,
        match=r"workflow 'round': jobs wait for each other in a cycle: "
        rf"{step.name} → {aside.name} → {gather.name} → {step.name}\.",
    ):
        flow.enqueue()
    assert qless.queues() == []
    flow = workflow()
    node = flow.add(step.args("a"))
    node.after(node)
    with pytest.raises(DependencyCycle):
        flow.enqueue()


def test_the_order_of_adding_does_not_matter(qless, work) -> None:
    flow = workflow()
    a = flow.add(step.args("a"))
    b = flow.add(step.args("b"))
    a.after(b)
    flow.enqueue()
    work()
    assert flows.ran == ["b", "a"]


def test_what_is_foreign_is_refused_before_anything_is_enqueued(qless) -> None:
    flow, other = workflow("one"), workflow("two")
    foreign = other.add(step.args("x"))
    elsewhere = step.using(alias="other").delay("y")
    for after, text in {
        (foreign,): "cannot wait for .* which belongs to another workflow 'two'",
        ("jid",): "can wait for what add.. returned and for handles of jobs, not for",
        (
            elsewhere,
        ): "workflow 'one' is in alias 'default', and job .* in alias 'other'",
    }.items():
        with pytest.raises(InvalidOption, match=text):
            flow.add(step.args("a"), after=after)
    with pytest.raises(InvalidOption, match=r"takes what .args\(\) returns"):
        flow.add(step)
    with pytest.raises(InvalidOption, match=r"see \.using"):
        flow.add(step.using(alias="other").args("a"))
    with pytest.raises(InvalidOption, match='on_failure must be "block" or'):
        flow.add(step.args("a"), on_failure="never")
    with pytest.raises(InvalidOption, match='on_failure must be "block" or'):
        workflow(on_failure="sometimes")
    with pytest.raises(InvalidOption, match="has no jobs"):
        flow.enqueue()
    with pytest.raises(InvalidOption, match="has no jobs"):
        batch([]).enqueue()
    with pytest.raises(InvalidOption, match="is not in DATABASES"):
        batch([step.args("a")], on_commit="nowhere").enqueue()
    assert qless.queues() == []


def test_what_is_said_of_one_that_is_not_enqueued_yet() -> None:
    with pytest.raises(InvalidOption, match="name must be a text, not 5"):
        workflow(5)  # type: ignore[arg-type]
    flow = workflow("nightly")
    assert bool(flow)
    assert (len(flow), repr(flow)) == (0, "<Workflow nightly: 0 jobs>")
    node = flow.add(step.args("a"))
    assert (len(flow), repr(flow)) == (1, "<Workflow nightly: 1 jobs>")
    assert repr(node) == f"<Node {step.name} {node.jid}>"
    other = workflow()
    assert repr(other) == f"<Workflow {other.id}: 0 jobs>"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_receiver_hears_of_each_of_its_jobs(qless, is_async: bool) -> None:
    heard: list[object] = []

    def receiver(sender, handle, **kwargs) -> None:
        heard.append((sender.name, handle.jid, handle.created))

    flow = workflow()
    first = flow.add(step.args("a"))
    last = flow.add(aside.args("b"), after=[first])
    job_enqueued.connect(receiver)
    try:
        asyncio.run(flow.aenqueue()) if is_async else flow.enqueue()
    finally:
        job_enqueued.disconnect(receiver)
    assert heard == [(step.name, first.jid, True), (aside.name, last.jid, True)]


@pytest.mark.parametrize("is_async", [False, True])
def test_late_replicas_leave_it_enqueued(qless, server, is_async: bool) -> None:
    given = {"LOCATION": server.url, "REPLICAS": 1}
    with override_settings(QLESS={"default": given}):
        flow = workflow()
        node = flow.add(step.args("a"))
        with pytest.raises(NotReplicated):
            asyncio.run(flow.aenqueue()) if is_async else flow.enqueue()
        assert flow.handle.refresh().state == "running"
        assert (node.handle.created, node.handle.refresh().state) == (True, "waiting")
        with pytest.raises(InvalidOption, match="is enqueued already"):
            flow.enqueue()


def test_one_that_is_refused_may_be_changed_and_enqueued_again(qless, work) -> None:
    gone = step.delay("gone")
    gone.cancel()
    qless.config_set("canceled-history", 0)
    flow = workflow()
    node = flow.add(step.args("a"), after=[gone])
    former = flow.id
    with pytest.raises(JobNotFound):
        asyncio.run(flow.aenqueue())
    assert flow.handle is None
    assert flow.id != former
    node.outside.clear()
    asyncio.run(flow.aenqueue())
    assert work() == 1
    assert flow.handle.refresh().state == "complete"


def test_it_is_enqueued_once(qless) -> None:
    flow = workflow()
    node = flow.add(step.args("a"))
    flow.enqueue()
    for again in (
        flow.enqueue,
        lambda: flow.add(step.args("b")),
        lambda: node.after(node),
    ):
        with pytest.raises(InvalidOption, match="is enqueued already"):
            again()


def test_each_job_has_its_own_options(qless) -> None:
    flow = workflow()
    # Nothing but the workflow keeps what using() makes.
    nodes = [flow.add(step.using(priority=n).args("a")) for n in range(20)]
    flow.enqueue()
    assert [node.handle.refresh().priority for node in nodes] == list(range(20))


def test_unique_jobs(qless, work) -> None:
    flow = workflow("u")
    with pytest.raises(InvalidOption, match=r"using\(unique=None\)"):
        flow.add(only_one.args())
    flow.add(only_one.using(unique=None).args())
    assert flow.enqueue().refresh().progress.total == 1


def test_what_comes_ahead_of_its_jobs_is_in_it_once(qless, work) -> None:
    flow = workflow()
    for name in "ab":
        flow.add(flows.behind.args(name))
    handle = flow.enqueue()
    assert handle.progress.total == 3
    work()
    assert flows.ran == ["ahead", "behind a", "behind b"]
    assert handle.refresh().state == "complete"


def test_an_alias_of_its_own(qless, work) -> None:
    flow = workflow(alias="other")
    flow.add(step.using(alias="other").args("a"))
    with pytest.raises(InvalidOption, match="is in alias 'other'"):
        flow.add(step.args("a"))
    handle = flow.enqueue()
    assert work() == 0
    assert work(alias="other") == 1
    assert handle.refresh().state == "complete"


# Failures.


@pytest.mark.parametrize(
    ("policy", "ran", "progress"),
    [
        ("block", [], (3, 0, 1, 0, 2)),
        ("cancel", [], (3, 0, 1, 2, 0)),
        ("run", ["b", "c"], (3, 2, 1, 0, 0)),
    ],
)
def test_what_a_failure_does(qless, work, policy, ran, progress) -> None:
    flows.failing.add("a")
    flow = workflow(on_failure=policy)
    a = flow.add(step.args("a"))
    b = flow.add(step.args("b"), after=[a])
    flow.add(step.args("c"), after=[b])
    handle = flow.enqueue()
    work()
    now = handle.wait(5)
    assert (now.state, now.progress, flows.ran) == ("failed", progress, ran)


def test_a_job_s_own_policy_wins_and_add_s_even_more(qless, work) -> None:
    flows.failing.add("a")
    flow = workflow(on_failure="run")
    a = flow.add(step.args("a"))
    flow.add(step.args("runs"), after=[a])
    flow.add(canceling.args("is cancelled"), after=[a])
    waits = flow.add(canceling.args("waits"), after=[a], on_failure="block")
    handle = flow.enqueue()
    work()
    assert flows.ran == ["runs"]
    assert handle.wait(5).progress == (4, 1, 1, 1, 1)
    assert waits.handle.refresh().state == "depends"


def test_retry_lets_it_go_on(qless, work) -> None:
    flows.failing.update("ab")
    flow = workflow()
    nodes = [flow.add(step.args(name)) for name in "abc"]
    flow.add(gather.args(), after=nodes)
    handle = flow.enqueue()
    work()
    assert handle.wait(5).progress == (4, 1, 2, 0, 1)
    flows.failing.clear()
    assert handle.retry() == 2
    assert handle.refresh().state == "running"
    work()
    assert handle.refresh().progress == (4, 4, 0, 0, 0)
    assert asyncio.run(handle.aretry()) == 0


def test_cancel(qless, work) -> None:
    flow = workflow()
    a = flow.add(step.args("a"))
    b = flow.add(step.using(queue="other").args("b"), after=[a])
    c = flow.add(step.using(queue="other").args("c"))
    handle = flow.enqueue()
    work("default")
    handle.cancel()
    now = handle.wait(5)
    assert (now.state, now.progress) == ("canceled", (3, 1, 0, 2, 0))
    assert [(job.jid, job.state) for job in now.jobs()] == [
        *((a.jid, "complete"), (b.jid, "canceled"), (c.jid, "canceled")),
    ]  # fmt: skip
    canceled = now.jobs()[1].wait().canceled
    assert (canceled.was, canceled.why, canceled.by) == (
        *("waiting", "workflow", handle.id),
    )  # fmt: skip
    assert work() == 0
    asyncio.run(handle.acancel())


# Batches.


def test_a_batch_that_succeeds(qless, work) -> None:
    handle = batch(
        [step.args(name) for name in "ab"],
        on_success=step.args("success"),
        on_complete=step.args("complete"),
        name="both",
    ).enqueue()
    assert (handle.name, handle.progress.total) == ("both", 4)
    work()
    assert set(flows.ran[2:]) == {"success", "complete"}
    assert handle.refresh().state == "complete"


def test_a_batch_with_failures_that_are_retried(qless, work) -> None:
    flows.failing.add("b")
    handle = batch(
        [step.args(name) for name in "abc"],
        on_success=gather.args(),
        on_complete=step.args("complete"),
    ).enqueue()
    work()
    assert flows.ran == ["a", "c", "complete"]
    now = handle.wait(5)
    assert (now.state, now.progress) == ("failed", (5, 3, 1, 0, 1))
    flows.failing.clear()
    assert handle.retry() == 1
    work()
    assert flows.ran[3:] == ["b", "gather"]
    assert handle.refresh().state == "complete"


def test_a_batch_of_nothing_still_calls_back(qless, work) -> None:
    batch([], on_success=step.args("success")).enqueue()
    work()
    assert flows.ran == ["success"]


# The handle.


def test_waiting(qless, work) -> None:
    flow = workflow("slow")
    flow.add(step.args("a"))
    handle = flow.enqueue()
    with pytest.raises(
        ResultNotReady, match=r"slow.* is still running after 0\.1 s: 1 of 1"
    ):
        handle.wait(0.1)
    found = []
    thread = threading.Thread(target=lambda: found.append(handle.wait(20)))
    thread.start()
    work()
    thread.join(20)
    assert [now.state for now in found] == ["complete"]


def test_what_is_gone(qless) -> None:
    handle = WorkflowHandle("default", "nothing")
    for ask in (handle.refresh, handle.wait):
        with pytest.raises(JobGone, match="There is no workflow nothing"):
            ask()
    for act in (handle.cancel, handle.retry):
        with pytest.raises(JobNotFound, match="Workflow nothing does not exist"):
            act()
    assert handle.jobs() == []
