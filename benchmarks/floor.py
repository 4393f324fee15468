"""The floor: the least that Redis and redis-py need for a job that must not get lost.

Everything else is measured against it in the same run, because absolute figures drift
with the machine and its neighbours, and ratios hardly do.
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import redis

SCRIPT = Path(__file__).with_name("floor.lua").read_text()
DATA = json.dumps({"i": 123456})


class Floor:
    """`floor.lua` by EVALSHA through redis-py, with the caller's clock."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._sha: Any = client.script_load(SCRIPT)

    def put(self, data: str = DATA) -> None:
        self._client.evalsha(self._sha, 0, "put", time.time(), uuid.uuid4().hex, data)

    def put_many(self, count: int, data: str = DATA) -> None:
        arguments: list[str] = []
        for _ in range(count):
            arguments += (uuid.uuid4().hex, data)
        self._client.evalsha(self._sha, 0, "put", time.time(), *arguments)

    def pop(self, count: int) -> list[list[bytes]]:
        found: Any = self._client.evalsha(
            self._sha, 0, "pop", time.time(), "worker", count
        )
        return found

    def complete(self, *ids: bytes) -> None:
        self._client.evalsha(self._sha, 0, "complete", time.time(), "worker", *ids)

    # The same shape as the subjects measured against it (see core.py).

    def fill(self, count: int, batch: int) -> None:
        """Put `count` jobs, `batch` to a call."""
        for _ in range(count // batch):
            if batch == 1:
                self.put()
            else:
                self.put_many(batch)

    def work_off(self, count: int, batch: int) -> None:
        """Pop and complete `count` jobs, `batch` to a call."""
        for _ in range(count // batch):
            jobs = self.pop(batch)
            for _id, _name, data in jobs:
                json.loads(data)
            self.complete(*[job[0] for job in jobs])
