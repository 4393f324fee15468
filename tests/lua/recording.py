"""Records what the core answers, stores and publishes while random operations are made.

And how many commands of the server it takes for that, which is no part of the digest.

The same operations on the same core give the same record, so that a record tells two cores
apart: by the first operation that differs. With odd seeds records become unreadable and keys
hold what does not belong there; half of the seeds have a narrow core (see altered), half the
server's clock, which leaps.

Each operation is one transaction with what is looked at behind it: the server's clock stands
still meanwhile, so that it is seen to the millisecond how long a key is given to live. Between
the operations nothing ends by itself: keys age by the operations' clock.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import redis

from tests.lua.altered import TIME, altered
from tests.lua.caller import Core
from tests.lua.changes import AGE, BEFORE, LOOK
from tests.lua.inquiries import THEMES, Inquirer
from tests.lua.newer_inquiries import OTHER, NewerInquirer
from tests.lua.operations import FIELD, QUEUES, WEIGHTS, Operation, Score
from tests.lua.test_corrupt_jobs import FIELDS

#: Of the plain random operations: reads are made more often where replies are looked at.
RECORDED = {**WEIGHTS, "look": 12, "view": 16, "ask": 6, "needs": 3}

State = dict[str, list[Any]]

#: Keys that no stranger changes: without them all calls are refused.
SPARED = {"ql:meta", "ql:config"}
PLACES = ["work", "locks", "scheduled", "depends", "recur"]

#: What jobs of the earliest clients have in place of a list of their history.
ANCIENT = json.dumps([
    {"put": 1.5, "q": "a", "popped": 2, "worker": "w", "failed": 3}, {"put": 4, "q": "b", "done": 9}
])  # fmt: skip

#: Where in the script an error was raised: any change of the core moves that.
LINES = re.compile(r"user_\w+: ?\d+: ?| script: .*$")

#: How many commands the server has run, those of scripts among them. (Reads what INFO says, as
#: functions that only read may not count in a key.)
COMMANDS = """
local sum = 0
for calls in string.gmatch(redis.call('INFO', 'commandstats'), 'calls=(%d+)') do
  sum = sum + calls
end
return sum
"""
#: The call itself, and two that count.
BESIDE = 3

#: Where it is said that all that was published before has been heard.
END = "end"


class Entry(NamedTuple):
    """An operation, and what came of it: also all keys, and what of them has changed."""

    operation: str
    reply: str
    events: list[str]
    state: State
    changed: State
    commands: int

    @property
    def digest(self) -> str:
        """A few letters that are others when anything is different."""
        seen = [self.operation, self.reply, self.events, self.changed]
        text = json.dumps(seen, sort_keys=True)
        return hashlib.sha1(text.encode("utf-8", "surrogatepass")).hexdigest()[:4]


def record(core: Core, seed: str, count: int) -> Iterator[Entry]:
    """Make `count` operations on an empty server, and yield what came of each.

    A seed is a number, or one of the newer themes and a number.
    """
    core.server.flushall()
    recorder = Recorder(core, seed)
    with core.server.pubsub() as channel:
        channel.psubscribe("ql:*", f"{OTHER}*")
        channel.subscribe(END)
        core.server.publish(END, "")
        heard(channel)
        for _ in range(count):
            yield recorder.step(channel)


class Recorder:
    """Makes one operation after the other."""

    def __init__(self, core: Core, seed: str) -> None:
        theme, _, digits = seed.rpartition(" ")
        number = int(digits)
        # Each of these with each of the others and with each theme, as the seeds go on.
        self.corrupting, self.narrow = number % 2 == 1, number // 2 % 2 == 1
        self.by_server = number // (4 if theme else len(THEMES)) % 2 == 1
        library = altered(core.library, self.narrow)
        library.load(core.server, "function")
        self.core = Core(core.server, "function", library)
        self.generator = (
            NewerInquirer(theme, number, leaping=self.by_server)
            if theme
            else Inquirer(number, leaping=self.by_server)
        )
        self.age = core.server.script_load(AGE)
        self.look = core.server.script_load(LOOK)
        self.commands = core.server.script_load(COMMANDS)
        self.state: State = {}

    def step(self, channel: Any) -> Entry:
        """Make the next operation."""
        pipe = self.core.server.pipeline(transaction=True)
        before = self.generator.now
        operation = self.generator.draw(self.running())
        later = self.generator.now - before
        pipe.evalsha(self.age, 0, BEFORE, round(max(later, 0) * 1000))
        if self.corrupting:
            self.corrupt(pipe)
            self.damage(pipe)
        self.call(pipe, operation)
        pipe.publish(END, "")
        pipe.evalsha(self.look, 0, BEFORE)
        *_, done, reply, more, _, found = pipe.execute(raise_on_error=False)
        assert isinstance(found, list), found
        changed = {name: [kind, *more] for name, kind, *more in found}
        self.state = {**self.state, **changed}
        for name, (kind, *_) in changed.items():
            if kind == "none":
                del self.state[name]
        text = answered(operation, reply)
        self.generator.answered(operation, reply)
        commands = more - done - BESIDE
        return Entry(
            str(operation), text, heard(channel), self.state, changed, commands
        )

    def running(self) -> list[str]:
        """Return the jids that hold a lock, in an order that depends on nothing else."""
        queues = [*QUEUES, "e"]
        held = [self.state.get(f"ql:q:{queue}-locks", ["", []])[1] for queue in queues]
        return sorted(jid for flat in held for jid in flat[::2])

    def field(self, prefix: str, jid: str, field: str) -> str:
        """Return a field of a job's record."""
        flat = self.state.get(f"{prefix}j:{jid}", ["", []])[1]
        return dict(zip(flat[::2], flat[1::2], strict=True)).get(field, "")

    def call(self, pipe: Any, operation: Operation) -> None:
        """Add an operation to a transaction, and before and after it a count of commands."""
        prefix = operation.prefix or "ql:"
        core = Core(pipe, "function", self.core.library).with_prefix(prefix)
        args = [self.resolved(part, prefix) for part in operation.args]
        if operation.keyed:
            now: Any = "*" if self.by_server else operation.now
            second, rest = f"{operation.now:.6f}".split(".")
            pipe.delete(TIME)
            pipe.rpush(TIME, second, int(rest))
            pipe.evalsha(self.commands, 0)
            core.ours(operation.command, *args, now=now, request=operation.request)
        else:
            pipe.evalsha(self.commands, 0)
            core.old(operation.command, operation.now, *args)
        pipe.evalsha(self.commands, 0)

    def resolved(self, part: object, prefix: str) -> object:
        """Return what a name stands for."""
        if isinstance(part, Score):
            flat = self.state.get("ql:schedules", ["", []])[1]
            return dict(zip(flat[::2], flat[1::2], strict=True)).get(part.id, 0)
        field = FIELD.get(type(part))
        return part if field is None else self.field(prefix, part.jid, field)

    def corrupt(self, pipe: Any) -> None:
        """Seldom overwrite a field of a record with what cannot be read, or take it away."""
        chance = self.generator.random
        if chance.random() < 0.1:
            running = self.running()
            jid = chance.choice(running) if running else self.generator.jid()
            jid = self.generator.jid() if chance.random() < 0.5 else jid
            name, field = f"ql:j:{jid}", chance.choice(sorted(FIELDS))
            values = [each for each in FIELDS[field] if each.isascii()]
            if chance.random() < 0.15:
                field, values = "history", [ANCIENT]
            if name not in self.state:
                return
            if chance.random() < 0.2:
                more = (
                    "queue",
                    "worker",
                    "klass",
                    "data",
                    "jid",
                    "workflow",
                    field,
                    field,
                )
                pipe.hdel(name, chance.choice(more))
            else:
                value = chance.choice(values)
                pipe.hset(name, mapping={field: value, "rare": "1"})

    def damage(self, pipe: Any) -> None:
        """Seldom change any key, as a stranger could have."""
        choose, dice = self.generator.random.choice, self.generator.random.random
        names = [name for name in sorted(self.state) if name not in SPARED]
        if dice() > 0.04 or not names:
            return
        schedules = [
            name for name in names if name.startswith(("ql:r:", "ql:schedule:"))
        ]
        name = choose(schedules if schedules and dice() < 0.3 else names)
        kind, content, _ = self.state[name]
        member = choose(
            [*content[:: 2 if kind in ("hash", "zset") else 1], "j05", "ghost"]
        )
        value = choose(["x", "", "-1", "0", "5", "1e9", "a", "j07"])
        score = choose([0, 1, -1, self.generator.now, self.generator.now - 100, 1e11])
        if kind == "hash" and name in schedules:
            member = choose(
                ["interval", "count", "since", "expires", "retries", "missed", "queue"]
            )
        change = {
            "hash": [("HDEL", name, member), ("HSET", name, member, value)],
            "zset": [("ZREM", name, member), ("ZADD", name, score, member)],
            "list": [("RPUSH", name, value), ("LPOP", name), ("LSET", name, 0, value)],
            "set": [("SADD", name, member, value), ("SREM", name, member)],
            "string": [("SET", name, value, "KEEPTTL")],
        }[kind]
        queue, jid = choose(QUEUES), self.generator.jid()
        pipe.execute_command(*choose([
            *change, *change, *change, ("DEL", name), ("PERSIST", name),
            ("SET", choose(["ql:foreign", "ql:timer:a", f"ql:unique:{value}"]), value),
            ("ZADD", f"ql:q:{queue}-{choose(PLACES)}", score, jid),
            ("RPUSH", f"ql:j:{jid}-history", value),
            ("SADD", f"ql:j:{jid}-{choose(['dependents', 'dependencies'])}", self.generator.jid()),
        ]))  # fmt: skip


def answered(operation: Operation, reply: Any) -> str:
    """Return a reply as text, without what depends on the server."""
    if isinstance(reply, redis.ResponseError):
        return f"refused: {LINES.sub('', str(reply))}"
    answer = decoded(reply)
    if operation.command == "audit" and isinstance(answer, dict):
        # It goes through the keys in an order of the server's own.
        answer["violations"] = sorted(answer["violations"] or ())
    return json.dumps(answer, sort_keys=True)


def heard(channel: Any) -> list[str]:
    """Return what was published until now."""
    found: list[str] = []
    while True:
        message = channel.get_message(timeout=5)
        assert message is not None, "the subscriber hears nothing"
        if message["type"] == "message":
            return found
        if message["type"] == "pmessage":
            text = json.dumps(decoded(message["data"]), sort_keys=True)
            found.append(f"{message['channel']} {text}")


def decoded(part: Any) -> Any:
    """Return a reply with its JSON texts as what they say."""
    if isinstance(part, list):
        return [decoded(each) for each in part]
    if isinstance(part, str) and part[:1] in ("{", "["):
        try:
            return json.loads(part)
        except ValueError:
            return part
    return part
