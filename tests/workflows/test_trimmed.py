"""Dependencies on jobs that the history has dropped, and waiting for them."""

from __future__ import annotations

import pytest

from django_qless import wait_all, workflow
from django_qless.core import JobNotFound
from django_qless.exceptions import JobGone
from tests.jobs_app.flows import gather, silent, step

pytestmark = pytest.mark.django_db(transaction=True)


def trimmed(qless, work, names):
    """Return handles that say complete, of jobs without a record."""
    handles = [step.delay(name) for name in names]
    work()
    handles = wait_all(handles)
    qless.config_set("jobs-history-count", 1)
    while qless.multiget([handle.jid for handle in handles]):
        silent.delay()
        work()
    return handles


def test_handle_that_says_complete_is_a_met_dependency(qless, work) -> None:
    first, second = trimmed(qless, work, "ab")
    waiting = step.using(delay=60).delay("later")
    last = gather.using(after=[first, waiting, second]).delay()
    assert last.refresh().dependencies == [waiting.jid]
    waiting.move("default")
    work()
    assert last.result() == {first.jid: "a", waiting.jid: "later", second.jid: "b"}
    [one] = gather.using(after=[first, second]).enqueue_many([gather.args()])
    work()
    assert one.result() == {first.jid: "a", second.jid: "b"}


def test_id_without_a_record_is_not_found(qless, work) -> None:
    [first] = trimmed(qless, work, "a")
    with pytest.raises(JobNotFound):
        gather.using(after=[first.jid]).delay()
    with pytest.raises(JobNotFound):
        gather.using(after=[first, "unknown"]).delay()


def test_dependency_that_runs_again_is_waited_for(qless, work) -> None:
    [first] = trimmed(qless, work, "a")
    step.using(jid=first.jid, delay=60).delay("again")
    last = gather.using(after=first).delay()
    assert last.refresh().dependencies == [first.jid]


def test_workflow_after_handles_that_say_complete(qless, work) -> None:
    flow = workflow()
    node = flow.add(gather.args(), after=trimmed(qless, work, "ab"))
    flow.enqueue()
    work()
    assert list(node.handle.result().values()) == ["a", "b"]


def test_more_than_one_call_can_name(qless, work) -> None:
    handles = trimmed(qless, work, map(str, range(1_001)))
    flow = workflow()
    node = flow.add(gather.args(), after=handles)
    flow.enqueue()
    work()
    assert len(node.handle.result()) == 1_001


def test_wait_for_more_jobs_than_the_history_keeps(qless, work) -> None:
    qless.config_set("jobs-history-count", 1)
    handles = [step.delay(name) for name in "abc"]
    work()
    ended = wait_all(handles)
    assert [each.state for each in ended] == ["complete"] * 3
    assert [each.result() for each in ended] == ["a", "b", "c"]
    assert handles[0].wait(0).state == "complete"
    assert wait_all(ended) == handles
    silent.delay()
    work()
    assert wait_all(ended) == handles
    handles[0].forget()
    with pytest.raises(JobGone):
        wait_all(handles)
