"""Reads a whole server, to see what a call has changed."""

from __future__ import annotations

from typing import Any

import redis

Snapshot = dict[str, tuple[str, Any, int]]

# What TYPE and PEXPIRETIME say of a key whose time ran out since it was listed.
GONE = "none"
EXPIRED = -2


def snapshot(server: redis.Redis) -> Snapshot:
    """Return every key with its type, its content and when it expires (-1: never).

    The contents are compared as values, not as DUMPs: a read may move entries within
    a hash table, which changes the DUMP but not the data.
    """
    names = sorted(server.scan_iter(count=10_000))
    pipe = server.pipeline(transaction=False)
    for name in names:
        pipe.type(raw(name))
    types = dict(zip(names, pipe.execute(), strict=True))
    kinds = {name: kind for name, kind in types.items() if kind != GONE}
    for name, kind in kinds.items():
        READERS[kind](pipe, raw(name))
        pipe.execute_command("PEXPIRETIME", raw(name))
    replies = pipe.execute()
    return {
        name: (kind, comparable(kind, content), expiry)
        for (name, kind), content, expiry in zip(
            kinds.items(), replies[::2], replies[1::2], strict=True
        )
        if expiry != EXPIRED
    }


def raw(name: Any) -> Any:
    """Return a name as bytes; it may not be UTF-8, and hiredis encodes nothing else."""
    return name.encode(errors="surrogateescape") if isinstance(name, str) else name


READERS: dict[str, Any] = {
    "string": lambda pipe, name: pipe.get(name),
    "hash": lambda pipe, name: pipe.hgetall(name),
    "list": lambda pipe, name: pipe.lrange(name, 0, -1),
    "set": lambda pipe, name: pipe.smembers(name),
    "zset": lambda pipe, name: pipe.zrange(name, 0, -1, withscores=True),
}


def comparable(kind: str, content: Any) -> Any:
    """Return a value that is equal for equal contents."""
    if kind == "set":
        return sorted(content)
    if kind == "zset":
        return [tuple(pair) for pair in content]
    return content


def difference(before: Snapshot, after: Snapshot) -> dict[str, tuple[Any, Any]]:
    """Return the keys whose type, content or expiry differ, with both values."""
    return {
        name: (before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }


def scores(server: redis.Redis, key: str) -> list[tuple[str, float]]:
    """Return a sorted set's members with their scores, lowest first."""
    return [
        (member, score) for member, score in server.zrange(key, 0, -1, withscores=True)
    ]


def dumped(server: redis.Redis) -> dict[str, str]:
    """Return every key's DUMP, for `restore`."""
    names = sorted(server.scan_iter(count=10_000))
    pipe = server.pipeline(transaction=False)
    for name in names:
        pipe.dump(name)
    dumps = zip(names, pipe.execute(), strict=True)
    return {name: dump for name, dump in dumps if dump is not None}


def restore(server: redis.Redis, dumps: dict[str, str]) -> None:
    """Make the server hold exactly these keys."""
    pipe = server.pipeline(transaction=False)
    pipe.flushall()
    for name, dump in dumps.items():
        pipe.restore(name, 0, dump)
    pipe.execute()


DIGEST = """
local names, texts = redis.call('KEYS', '*'), {}
table.sort(names)
for _, name in ipairs(names) do
  local text
  local kind = redis.call('TYPE', name).ok
  if kind == 'set' then
    local members = redis.call('SMEMBERS', name)
    table.sort(members)
    text = table.concat(members, '\\n')
  elseif kind == 'hash' then
    local fields = redis.call('HGETALL', name)
    local pairs = {}
    for i = 1, #fields, 2 do
      pairs[#pairs + 1] = #fields[i] .. ' ' .. fields[i] .. ' ' .. fields[i + 1]
    end
    table.sort(pairs)
    text = table.concat(pairs, '\\n')
  else
    text = redis.call('DUMP', name)
  end
  texts[#texts + 1] = name .. ' ' .. redis.sha1hex(text)
end
return redis.sha1hex(table.concat(texts, '\\n'))
"""


def digest(server: redis.Redis) -> str:
    """Return a digest of all keys and their contents: quick, for small keyspaces only.

    (A hash may be moved about by a read, a set by a restore: that shows in the DUMP.)
    """
    text: str = server.eval(DIGEST, 0)
    return text
