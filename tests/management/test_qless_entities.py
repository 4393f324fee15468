"""`manage.py qless_entities`."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_qless import entities
from django_qless.testing import run_jobs
from tests.declare.test_entities import sync

pytestmark = pytest.mark.django_db
QUEUE = "entities-orders"


def command(*args: Any, **options: Any) -> str:
    """Call the command; return what it prints."""
    out = io.StringIO()
    call_command("qless_entities", *args, stdout=out, **options)
    return out.getvalue()


def test_lists_and_changes() -> None:
    assert "no queue has entities" in command("queues")
    sync.push_many([("a", "bad"), ("b", 1)])
    rows = json.loads(command("queues", "--json"))
    assert [(row["queue"], row["queued"]) for row in rows] == [(QUEUE, 2)]
    assert QUEUE in command("queues")
    run_jobs(raise_failures=False, until_empty=False)
    listed = command("list", QUEUE, "retrying")
    assert "a" in listed
    assert "it is bad" in listed
    shown = json.loads(command("show", QUEUE, "a"))
    assert [payload for _, payload in shown["waiting"]] == ["bad"]
    assert "kill: 1" in command("kill", QUEUE, "--no-input")
    assert entities[QUEUE]["a"].state == "dead"
    assert "revive: 1" in command("revive", QUEUE)
    assert entities[QUEUE]["a"].state == "waiting"
    assert "kill: 1 entity\n" in command("kill", QUEUE, "a")
    assert "delete-dead: 1" in command("delete-dead", QUEUE, "a")
    with pytest.raises(CommandError, match="There is no entity"):
        command("show", QUEUE, "a")


def test_a_list_as_json(qless) -> None:
    sync.push("a", 1)
    sync.push("b", 2)
    page = json.loads(command("list", QUEUE, "--count", "1", "--json"))
    assert page["total"] == 2
    assert [row["entity"] for row in page["entities"]] == ["a"]


def test_all_of_a_queue_are_asked_about(qless, people: list[str]) -> None:
    sync.push("a", "bad")
    run_jobs(raise_failures=False, until_empty=False)
    people.append("n")
    with pytest.raises(CommandError, match="Nothing was changed"):
        command("kill", QUEUE)
    assert entities[QUEUE]["a"].state != "dead"
    people.append("y")
    assert "kill: 1" in command("kill", QUEUE)
    assert people == []
