"""Entities in the words of the tests."""

from __future__ import annotations

import json
from typing import Any

from tests.core.caller import entity_jid, flat
from tests.core.keyed import Keyed, settlement

FIELDS = (
    "jid queue klass data token retries remaining priority tags context expires batch"
).split()


def jid_of(entity: str, queue: str = "orders") -> str:
    """Return the id of the job that carries an entity."""
    return entity_jid(queue, entity)


class Entities:
    """The entities of one queue of a namespace."""

    def __init__(self, keyed: Keyed, queue: str = "orders") -> None:
        self.keyed = keyed
        self.queue = queue
        self.now = 1000.0

    def push(self, entity: str, *payloads: Any, klass: str = "sync", score: Any = "",
             due: Any = "", **pairs: Any) -> int:  # fmt: skip
        """Push payloads, at one score."""
        return self.push_many(
            [(entity, each, score, due) for each in payloads], klass, **pairs
        )

    def push_many(
        self, items: list[tuple[str, Any, Any, Any]], klass: str = "sync", **pairs: Any
    ) -> int:
        """Push payloads: entity, payload, score, due."""
        parts: list[Any] = []
        for entity, payload, score, due in items:
            data = json.dumps({"v": 1, "entity": entity})
            parts += [entity, data, json.dumps(payload), score, due]
        new: int = self.call("push", "", self.queue, klass, len(items), *parts,
                             *flat(pairs))  # fmt: skip
        return new

    def call(self, command: str, *args: Any) -> Any:
        """Call a command now."""
        return self.keyed.call(command, *args, now=self.now)

    def take(self, count: int = 1, worker: str = "w1") -> list[dict[str, Any]]:
        """Reserve entities; `payloads` of each are those of its run."""
        jobs = self.call("settle", worker, 0, count, 1, self.queue)[1]
        taken = [dict(zip(FIELDS, job, strict=True)) for job in jobs]
        for job in taken:
            data = json.loads(job["data"])
            job["entity"], job["payloads"] = data["entity"], data["payloads"]
        return taken

    def settle(
        self, job: dict[str, Any], verb: str, *args: Any, worker: str = "w1"
    ) -> Any:
        """Settle one; return the refusals."""
        parts = settlement(job["jid"], job["token"], verb, *args)
        return self.call("settle", worker, 1, *parts, 0, 0)[0]

    def show(self, entity: str) -> dict[str, Any]:
        """Return what there is of an entity."""
        shown: dict[str, Any] = json.loads(
            self.call("entity.show", self.queue, entity, 0, 100)
        )
        return shown

    def state(self, entity: str) -> tuple[Any, ...]:
        """Return state, retry count, and the payloads that wait, run and are dead."""
        shown = self.show(entity)
        job = shown["job"] or {}
        parts = ("waiting", "running", "dying")
        lists = [[text for _, text in shown[part]] for part in parts]
        return (job.get("state"), job.get("count"), *lists)

    def counts(self) -> dict[str, Any]:
        """Return the queue's figures."""
        counts: dict[str, Any] = json.loads(self.call("entities.counts", self.queue))[0]
        return counts

    def violations(self) -> list[str]:
        """Return which invariants the keys of the namespace break, in words."""
        return self.keyed.violations()
