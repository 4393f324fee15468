"""One build on a server of its own: makes steps, tells what came of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import redis

from tests.core.against.builds import CLOCK
from tests.core.caller import Core, Library
from tests.core.keyspace import Snapshot, snapshot
from tests.core.operations import FIELD, QUEUES, Operation, Score
from tests.real_servers import Server

#: Published behind each step: what is heard before it came of the step.
END = "against:end"

#: The names, types and contents of all keys as one hash; then which of them end by
#: themselves, each with the milliseconds that it has left.
DIGEST = """
local names, texts, ends = redis.call('KEYS', '*'), {}, {}
local function of(...)
  local list = redis.call(...)
  for i = 1, #list do list[i] = #list[i] .. ' ' .. list[i] end
  return list
end
local function pairwise(list)
  local joined = {}
  for i = 1, #list, 2 do joined[#joined + 1] = list[i] .. ' ' .. list[i + 1] end
  return joined
end
local function sorted(list)
  table.sort(list)
  return list
end
local function without_replies(fields)
  local others = {}
  for _, field in ipairs(fields) do
    if not string.find(field, '^%d+ reply:') then
      others[#others + 1] = field
    end
  end
  return others
end
local readers = {
  string = function(name) return of('MGET', name) end,
  list = function(name) return of('LRANGE', name, 0, -1) end,
  set = function(name) return sorted(of('SMEMBERS', name)) end,
  hash = function(name) return sorted(pairwise(of('HGETALL', name))) end,
  zset = function(name) return of('ZRANGE', name, 0, -1, 'WITHSCORES') end,
}
table.sort(names)
for _, name in ipairs(names) do
  local kind = redis.call('TYPE', name).ok
  -- (Replies to requests stood in keys of their own once, and are fields of meta now.)
  if name ~= ARGV[1] and readers[kind] and not string.find(name, '^ql:reply:') then
    local left = redis.call('PTTL', name)
    local list = readers[kind](name)
    if name == 'ql:meta' then
      list = without_replies(list)
    end
    local content = table.concat(list, '\\n')
    texts[#texts + 1] = name .. ' ' .. kind .. ' ' .. redis.sha1hex(content)
    if left >= 0 then
      ends[#ends + 1], ends[#ends + 2] = name, left
    end
  end
end
return { redis.sha1hex(table.concat(texts, '\\n')), ends }
"""


class Step(NamedTuple):
    """An operation; `star`: by the server's clock."""

    operation: Operation
    star: bool = False

    def __str__(self) -> str:
        operation = self.operation
        words = ", ".join(map(repr, (operation.command, *operation.args)))
        who = "ours" if operation.keyed else "old"
        now = f"* at {operation.now!r}" if self.star else repr(operation.now)
        return f"{now} {who}({words}) {operation.request}".rstrip()


class Outcome(NamedTuple):
    """What a step answered, published and stored."""

    reply: Any
    events: list[str]
    digest: str
    lifetimes: dict[str, int]


def sendable(part: Any) -> Any:
    """Return bytes for a text that was read from bytes that are no UTF-8."""
    try:
        str(part).encode()
    except UnicodeEncodeError:
        return part.encode("utf-8", "surrogateescape")
    return part


class Side:
    """A build on an empty server: `clear` it first."""

    def __init__(self, server: Server, build: Path) -> None:
        self.client = server.client(
            decode_responses=True, encoding_errors="surrogateescape"
        )
        self.library = Library(build)
        self.library.load(self.client)
        self.digest = self.client.script_load(DIGEST)
        self.channel = self.client.pubsub()
        self.channel.psubscribe("*")
        self.channel.get_message(timeout=5)
        self.prefix = "ql:"
        self.running: list[str] = []
        self.ticks: dict[str, str] = {}
        #: The tokens drawn in this sequence -> which of them each is.
        self.ranks: dict[str, str] = {}
        self.last_token = 0

    def close(self) -> None:
        """End the connections."""
        self.channel.close()
        self.client.close()

    def clear(self) -> None:
        """Forget all that was done."""
        self.client.flushdb()
        self.reload()
        self.running, self.ticks = [], {}
        self.ranks, self.last_token = {}, 0

    def reload(self) -> None:
        """Forget what functions remember from call to call."""
        self.client.function_flush()
        self.library.load(self.client)

    def perform(self, step: Step) -> Outcome:
        """Make a step and return what came of it."""
        args = [sendable(self.resolved(part, step)) for part in step.operation.args]
        pipe = self.client.pipeline(transaction=False)
        pipe.set(CLOCK, clock(step.operation.now) if step.star else "0 0")
        self.send(pipe, step, args)
        pipe.evalsha(self.digest, 0, CLOCK)
        for queue in QUEUES:
            pipe.zrange(f"ql:q:{queue}-locks", 0, -1)
        pipe.hget("ql:meta", "token")
        pipe.publish(END, "")
        replies = pipe.execute(raise_on_error=False)
        _, reply, (digest, ends), *locks, token, _ = replies
        self.note_tokens(token, step)
        # (The ids of jobs of schedule.run have a token in them: the other side has others.)
        self.running = sorted(
            jid
            for held in locks
            if isinstance(held, list)
            for jid in held
            if "@run-" not in jid
        )
        if step.operation.command == "schedule.due" and isinstance(reply, list):
            self.ticks |= zip(reply[-1][::7], reply[-1][1::7], strict=True)
        lifetimes = dict(zip(ends[::2], ends[1::2], strict=True))
        return Outcome(reply, self.heard(), digest, lifetimes)

    def note_tokens(self, token: Any, step: Step) -> None:
        """Note the tokens that a step has drawn; `token` is the last one."""
        if not isinstance(token, str) or not token.isdecimal():
            return
        last, first = int(token), self.last_token + 1
        microseconds = round(step.operation.now * 1e6) if step.star else 0
        if first < microseconds <= last:
            first = microseconds
        for drawn in range(first, last + 1):
            self.ranks[str(drawn)] = str(len(self.ranks) + 1)
        self.last_token = max(self.last_token, last)

    def send(self, pipe: Any, step: Step, args: list[Any]) -> None:
        """Send what a step asks for."""
        operation = step.operation
        core = Core(pipe, self.library, self.prefix)
        if not operation.keyed:
            core.call("old", (), *bare(operation, args))
            return
        now = "*" if step.star else operation.now
        core.ours(operation.command, *args, now=now, request=operation.request)

    def resolved(self, part: Any, step: Step) -> Any:
        """Return what a name stands for on this side."""
        if isinstance(part, Score):
            return self.ticks.get(part.id) or self.next_tick(part.id, step)
        field = FIELD.get(type(part))
        if field is None:
            return part
        try:
            return self.client.hget(sendable(f"ql:j:{part.jid}"), field) or ""
        except redis.ResponseError:  # another kind of key stands there
            return ""

    def next_tick(self, schedule: str, step: Step) -> Any:
        """Return when a schedule ticks next, as pages show it."""
        core = Core(self.client, self.library)
        try:
            text = core.ours("schedule.get", schedule, now=step.operation.now)
        except redis.ResponseError:
            return 0
        return json.loads(text).get("next", 0) if text else 0

    def heard(self) -> list[str]:
        """Return what was published before the end of the step."""
        found: list[str] = []
        while True:
            message = self.channel.get_message(timeout=20)
            assert message is not None, "the subscriber hears nothing"
            if message["channel"] == END:
                return found
            found.append(f"{message['channel']} {message['data']}")

    def keys(self) -> Snapshot:
        """Return all keys."""
        return {
            name: key for name, key in snapshot(self.client).items() if name != CLOCK
        }


def bare(operation: Operation, args: list[Any]) -> list[Any]:
    """Return the words of a call without KEYS; those of a now of None end before it."""
    if operation.now is None:
        return [operation.command] if operation.command else []
    return [operation.command, operation.now, *args]


def clock(now: float) -> str:
    """Return a time as CLOCK has it."""
    return f"{int(now)} {round(now % 1 * 1e6) % 1_000_000}"
