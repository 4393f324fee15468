"""What is done to queues, by clicking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django_qless.core import Client
    from tests.admin.browser.operating import Operator

pytestmark = pytest.mark.xdist_group("actions")


def test_pausing_a_queue(operator: Operator, client: Client) -> None:
    """It is paused with a reason, and with another, and resumed."""
    operator.put()
    queue, reason = operator.own, "the bank is closed"
    operator.go("queue")
    told = f"Paused the queue “{queue}”: {reason}"
    operator.do(f"Pause the queue {queue}", "Pause", told=told, Reason=reason)
    pause = client.queue_counts(queue).pause
    assert pause is not None
    assert (pause.reason, pause.by) == (reason, "demo")
    operator.go("queue", queue)
    operator.asks(reason)
    operator.do("Change the reason…", "Pause", told="for ever", Reason="for ever")
    pause = client.queue_counts(queue).pause
    assert pause is not None
    assert pause.reason == "for ever"
    operator.do("Resume", told=f"Resumed the queue “{queue}”.")
    assert not client.queue_counts(queue).paused


def test_limits_of_a_queue(operator: Operator, client: Client) -> None:
    """They are set, and are as they were."""
    operator.put()
    option = f"{operator.own}-max-concurrency"
    operator.go("queue", operator.own)
    for value, told in (("3", "→ 3."), ("", "max-concurrency 3 →")):
        operator.main.locator("input[name$=concurrency]").fill(value)
        operator.do("Save limits", told=told)
        assert client.config_get(option) == (value or None)


def test_emptying_and_forgetting_a_queue(operator: Operator, client: Client) -> None:
    """All that waits is canceled; then the queue is taken off the list."""
    for number in range(3):
        operator.put(str(number))
    queue = operator.own
    operator.go("queue", queue)
    operator.do(
        *("Cancel 3 waiting jobs…", "Cancel the jobs"),
        asks="Cancel 3 jobs?",
        told="Canceled 3 jobs.",
    )
    assert client.queue_counts(queue).waiting == 0
    operator.go("queue", queue)
    told = f"Removed the queue “{queue}” from the list."
    operator.do("Forget…", "Forget", told=told)
    assert all(each.name != queue for each in client.queues())
