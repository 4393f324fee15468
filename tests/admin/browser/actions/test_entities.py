"""Entities changed by clicking: one, those ticked, all of a kind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from django_qless.core import Settlement
from django_qless.core.commands.entities import Payload
from tests.admin.browser.operating import ADD

if TYPE_CHECKING:
    from tests.admin.browser.operating import Operator


pytestmark = pytest.mark.xdist_group("actions")


def retry(operator: Operator, *entities: str) -> None:
    """Let the runs of new entities fail, so that they wait for an hour."""
    client, queue = operator.client, operator.own
    for entity in entities:
        head = json.dumps({"v": 1, "entity": entity})
        client.push("", queue, ADD, [Payload(entity, head, "[1]")], retries=5)
    held = client.settle("by-hand", [], len(entities), [queue]).jobs
    error = (3600, "OSError", "it is lost")
    ended = [Settlement(job.jid, job.token, "retry", error) for job in held]
    assert not client.settle("by-hand", ended, 0, ["-"]).refused


def test_one_entity(operator: Operator) -> None:
    retry(operator, "o-1")
    operator.go("entity", operator.own, "?tab=retrying")
    operator.main.get_by_role("link", name="o-1", exact=True).click()
    operator.do("Kill…", "Kill", asks="Kill 1 entity?", told="Killed 1 entity.")
    operator.main.get_by_label("Entity with the id").fill("o-1")
    operator.press("Show")
    operator.do("Bring back…", "Bring back", told="Brought back 1 entity.")


def test_ticked_entities(operator: Operator) -> None:
    retry(operator, "a", "b", "c")
    operator.go("entity", operator.own, "?tab=retrying")
    operator.main.get_by_label("All on this page").check()
    expect(operator.main.get_by_text("3 selected:")).to_be_visible()
    operator.main.get_by_label("Select entity b").uncheck()
    operator.do("Delete", "Delete", asks="Delete 2 entities?", told="Deleted 2")


def test_all_failed(operator: Operator) -> None:
    retry(operator, "a", "b")
    operator.go("entity", operator.own, "?tab=retrying")
    operator.do("Kill all failed…", "Kill", told="Killed 2 entities.")
