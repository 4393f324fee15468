"""Records what the core answers, stores and publishes while random operations are made.

The same operations on the same core give the same record, so that a record tells two cores
apart: by the first operation that differs. With odd seeds records become unreadable.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import redis

from tests.lua.caller import Core
from tests.lua.keyspace import Snapshot, snapshot
from tests.lua.operations import WEIGHTS, Generator
from tests.lua.random_run import RandomRun, timeless
from tests.lua.test_corrupt_records import FIELDS

#: Reads are made more often than by random runs, for their replies are looked at.
RECORDED = {**WEIGHTS, "look": 12, "view": 16, "ask": 6, "needs": 3}

#: Seconds: what ends by itself sooner may have ended, on a busy machine.
SOON = 320


#: Where it is said that all that was published before has been heard.
END = "end"


class Entry(NamedTuple):
    """An operation, and what came of it."""

    operation: str
    reply: str
    events: list[str]
    state: dict[str, Any]

    @property
    def digest(self) -> str:
        """A few letters that are others when anything is different."""
        text = json.dumps(self, sort_keys=True)
        return hashlib.sha1(text.encode("utf-8", "surrogatepass")).hexdigest()[:4]


def record(core: Core, seed: int, count: int) -> Iterator[Entry]:
    """Make `count` operations on an empty server, and yield what came of each."""
    run = RandomRun(core, seed)
    run.generator = Generator(seed, RECORDED)
    core.server.flushall()
    with core.server.pubsub() as channel:
        channel.psubscribe("ql:*")
        channel.subscribe(END)
        heard(channel, core)
        for _ in range(count):
            if seed % 2:
                corrupt(core, run.generator)
            operation = run.generator.draw(run.running())
            args = [run.resolve(part) for part in operation.args]
            try:
                if operation.keyed:
                    now, request = operation.now, operation.request
                    reply = core.ours(
                        operation.command, *args, now=now, request=request
                    )
                else:
                    reply = core.old(operation.command, operation.now, *args)
            except redis.ResponseError as error:
                reply = f"refused: {error}"
            state = lasting(snapshot(core.server))
            answer = decoded(timeless(reply))
            if operation.command == "audit" and isinstance(answer, dict):
                # It goes through the keys in an order of the server's own.
                answer["violations"] = sorted(answer["violations"] or ())
            if operation.command == "schedule.due" and isinstance(answer, list):
                answer[0] = ""  # for how long another one has the lease yet
            yield Entry(str(operation), plain(answer), heard(channel, core), state)


def corrupt(core: Core, generator: Generator) -> None:
    """Seldom overwrite a field of a record with what cannot be read, or take it away."""
    chance = generator.random
    if chance.random() < 0.1:
        name, field = f"ql:j:{generator.jid()}", chance.choice(sorted(FIELDS))
        values = [each for each in FIELDS[field] if each.isascii()]
        if not core.server.exists(name):
            return
        if chance.random() < 0.2 and field not in ("state", "priority"):
            core.server.hdel(name, field)
        else:
            value = chance.choice(values)
            core.server.hset(name, mapping={field: value, "rare": "1"})


def heard(channel: Any, core: Core) -> list[str]:
    """Return what was published until now."""
    core.server.publish(END, "")
    found: list[str] = []
    while True:
        message = channel.get_message(timeout=5)
        assert message is not None, "the subscriber hears nothing"
        if message["type"] == "message":
            return found
        if message["type"] == "pmessage":
            found.append(f"{message['channel']} {plain(message['data'])}")


def plain(reply: Any) -> str:
    """Return a reply as text, with the members of objects in order."""
    return json.dumps(decoded(timeless(reply)), sort_keys=True)


def decoded(part: Any) -> Any:
    """Return a reply with its JSON texts as what they say."""
    if isinstance(part, list):
        return [decoded(timeless(each)) for each in part]
    if isinstance(part, str) and part[:1] in ("{", "["):
        try:
            return json.loads(part)
        except ValueError:
            return part
    return part


def lasting(keys: Snapshot) -> dict[str, Any]:
    """Return keys and contents, and whether they end by themselves; not what ends soon."""
    now = time.time()
    return {
        name: [kind, content, expiry != -1]
        for name, (kind, content, expiry) in keys.items()
        if expiry == -1 or expiry / 1000 - now > SOON
    }
