"""A call that ends before an argument that it needs: the refusal names the argument."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed

# Each call, and what it lacks.
CALLS: list[tuple[tuple[Any, ...], str]] = [
    (("beat", "w"), "info"),
    (("each", "cancel"), "jid"),
    (("config.set",), "option"),
    (("config.set", "heartbeat"), "value"),
    (("config.unset",), "option"),
    (("depends", "job"), "on or off"),
    (("due",), "queue"),
    (("entities.list",), "list"),
    (("fail", "job", "1"), "group"),
    (("failure.group",), "name"),
    (("failure.groups",), "order"),
    (("jobs",), "state"),
    (("jobs.count",), "state"),
    (("lag",), "queue"),
    (("order", "w"), "order"),
    (("peek", "queue"), "count"),
    (("pop", "queue", "w"), "count"),
    (("recur", "queue", "id"), "klass"),
    *(
        (("recur.update", "cron", name), name)
        for name in "priority retries data klass queue interval backlog".split()
    ),
    (("results",), "jid"),
    (("results.gone",), "jid"),
    (("schedule.get",), "id"),
    (("schedule.pause",), "id"),
    (("schedule.remove",), "id"),
    (("schedule.resume",), "id"),
    (("schedule.run",), "id"),
    (("schedule.set", "id", "queue"), "klass"),
    (("schedule.update",), "id"),
    (("search", 5, 2, "klass", "k*", "state"), "state"),
    (("throughput",), "queue"),
    (("unfail", "queue"), "group"),
    (("workflow.cancel",), "workflow"),
    (("workflow.get",), "workflow"),
    (("workflow.jobs",), "workflow"),
    (("workflow.put",), "workflow"),
    (("workflow.begin",), "workflow"),
    (("workflow.begin", "id"), "meta"),
    (("workflow.release",), "workflow"),
]


@pytest.mark.parametrize(
    ("call", "what"), CALLS, ids=lambda each: "-".join(map(str, each))
)
def test_a_missing_argument_is_named(
    keyed: Keyed, call: tuple[Any, ...], what: str
) -> None:
    keyed.call("recur", "queue", "cron", "k", "{}", "interval", 60, 500, now=1)
    assert f'{call[0]}(): Arg "{what}" missing' in keyed.refusal(*call, now=2)
