"""Workflows of thousands of jobs, which take several calls, and clients that die."""

from __future__ import annotations

from typing import Any

import pytest

from django_qless import workflow
from django_qless.core import JobNotFound, Put
from django_qless.exceptions import InvalidOption
from tests.jobs_app import flows
from tests.jobs_app.flows import gather, step

pytestmark = pytest.mark.django_db(transaction=True)


def test_five_thousand_fan_out_and_one_gathers(qless, work) -> None:
    flow = workflow()
    nodes = [flow.add(flows.silent.args()) for _ in range(5_000)]
    last = flow.add(gather.args(), after=nodes)
    handle = flow.enqueue()
    now = handle.refresh()
    assert (now.state, now.progress) == ("running", (5_001, 0, 0, 0, 5_001))
    assert len(qless.needs(last.jid)) == 5_000
    assert work() == 5_001
    assert flows.ran == ["gather"]
    assert handle.refresh().state == "complete"
    assert len(handle.jobs()) == 5_001


def test_a_graph_of_a_thousand_is_one_call(qless, monkeypatch) -> None:
    commands: list[str] = []
    steps = type(qless).steps

    def noting(self, request):
        commands.append(getattr(request, "name", ""))
        return steps(self, request)

    monkeypatch.setattr(type(qless), "steps", noting)
    flow = workflow()
    first = flow.add(step.args("0"))
    for n in range(999):
        flow.add(step.args(str(n + 1)), after=[first])
    flow.enqueue()
    assert [name for name in commands if name] == ["workflow.put"]


def test_a_large_one_that_was_refused_may_be_tried_again(qless, work) -> None:
    outside = step.using(delay=60).delay("outside")
    flow = workflow()
    for _ in range(1_001):
        flow.add(flows.silent.args())
    flow.add(step.args("last"), after=[outside])
    outside.cancel()
    with pytest.raises(JobNotFound):
        flow.enqueue()
    step.using(jid=outside.jid).delay("outside")
    handle = flow.enqueue()
    work()
    assert handle.refresh().progress == (1_002, 1_002, 0, 0, 0)


def in_workflow(late: Any) -> None:
    flow = workflow()
    flow.add(late.args("last"))
    flow.enqueue()


@pytest.mark.parametrize(
    "enqueue",
    [
        lambda late: late.delay("last"),
        lambda late: late.enqueue_many([late.args("a"), late.args("b")]),
        in_workflow,
    ],
    ids=["delay", "enqueue_many", "workflow"],
)
def test_more_than_a_thousand_dependencies_are_refused(qless, enqueue) -> None:
    handles = step.enqueue_many(step.args(str(n)) for n in range(1_001))
    with pytest.raises(InvalidOption, match=r"flow\.add\(job, after=handles\)"):
        enqueue(step.using(after=handles))
    assert qless.queue_counts("default").depends == 0
    assert qless.queue_counts("default").waiting == 1_001


def test_a_workflow_takes_more_than_a_thousand_dependencies(qless, work) -> None:
    handles = flows.silent.enqueue_many([flows.silent.args()] * 1_500)
    flow = workflow()
    last = flow.add(step.args("last"), after=handles)
    flow.enqueue()
    assert len(last.handle.refresh().dependencies) == 1_500
    work()
    assert flows.ran == ["last"]
    assert last.handle.refresh().state == "complete"


def large(last: Put | None = None) -> list[Put]:
    """Return 2,000 jobs, and perhaps another one."""
    data = '{"v":1,"args":["x"]}'
    items = [Put(f"j{n}", "default", step.name, data) for n in range(2_000)]
    return items if last is None else [*items, last]


def send(qless, items: list[Put], last: str) -> None:
    """Put a workflow, up to this call: then the client dies."""
    calls = type(qless).put_workflow.build(qless, "", "flow", items)
    for call in calls.parts:
        qless.run(call)
        if call.name == last:
            break


def test_nothing_runs_of_a_client_that_dies_before_the_release(qless, work) -> None:
    send(qless, large(), "put.many")
    now = qless.workflow("flow")
    assert (now.state, now.total, now.held) == ("unpacking", 1_000, 1_000)
    assert work() == 0


def test_a_client_that_dies_after_the_release(qless, work) -> None:
    send(qless, large(), "workflow.release")
    assert qless.workflow("flow").state == "running"
    runs = [work() for _ in range(3)]  # A worker that asks for jobs carries on.
    assert sum(runs) == 2_000
    assert qless.workflow("flow").state == "complete"


def test_a_client_that_has_died_may_go_on(qless, work) -> None:
    send(qless, large(), "put.many")
    assert qless.put_workflow("", "flow", large()) == "flow"
    assert qless.workflow("flow").total == 2_000
    while work():
        pass
    assert qless.workflow("flow").state == "complete"


def test_what_is_refused_in_part_is_taken_back(qless) -> None:
    last = Put("last", "default", step.name, "{}", depends=["nosuch"])
    with pytest.raises(JobNotFound) as caught:
        qless.put_workflow("", "flow", large(last))
    assert caught.value.done == 2_000
    now = qless.workflow("flow")
    assert (now.state, now.canceled) == ("canceled", 2_000)
    assert qless.put_workflow("", "again", large()) == "again"


def test_a_large_one_is_canceled_to_its_end(qless) -> None:
    flow = workflow()
    first = flow.add(step.args("first"))
    for number in range(3000):
        flow.add(step.args(str(number)), after=[first])
    handle = flow.enqueue()
    handle.cancel()
    now = handle.refresh()
    assert (now.state, now.progress.canceled) == ("canceled", 3001)
    assert qless.queue_counts("default").waiting == 0
