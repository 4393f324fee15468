"""The core as records have it: what a server draws or decides is foreseeable in it.

The server's time stands in a key (see TIME), pages of keys and members come in order, and
members are drawn from the front. In a narrow core what one call may do is cut down as well:
so a few jobs are already more than that, and what is left for later calls is seen.
"""

from __future__ import annotations

import re
from functools import cache

from tests.lua.caller import Library

#: A list with the server's time: seconds and microseconds, as TIME answers.
TIME = "time"

BUILD = "local function build(without_keys)"

SHIM = """
  local real = redis
  local function sorted(list)
    table.sort(list)
    return list
  end
  local function few(list, most)
    local found = {}
    for n = 1, math.min(most, #list) do
      found[n] = list[n]
    end
    return found
  end
  -- The cursor is how many have been seen.
  local function page(list, cursor, words)
    local count = 10
    for n = 1, #words, 2 do
      count = words[n] == 'COUNT' and tonumber(words[n + 1]) or count
    end
    local found, seen = {}, tonumber(cursor)
    for n = seen + 1, math.min(seen + count, #list) do
      found[#found + 1] = list[n]
    end
    return { seen + count < #list and tostring(seen + count) or '0', found }
  end
  local instead = {
    TIME = function()
      return real.call('LRANGE', 'TIME KEY', 0, -1)
    end,
    -- Each server has another name for itself.
    INFO = function()
      return { err = 'not told' }
    end,
    SCAN = function(cursor, ...)
      return page(sorted(real.call('KEYS', (select(2, ...)))), cursor, { ... })
    end,
    SSCAN = function(name, cursor, ...)
      return page(sorted(real.call('SMEMBERS', name)), cursor, { ... })
    end,
    SRANDMEMBER = function(name, most)
      return few(sorted(real.call('SMEMBERS', name)), most)
    end,
    HRANDFIELD = function(name, most)
      local found = {}
      for _, field in ipairs(few(sorted(real.call('HKEYS', name)), most)) do
        found[#found + 1] = field
        found[#found + 1] = real.call('HGET', name, field)
      end
      return found
    end,
    SPOP = function(name, most)
      local found = few(sorted(real.call('SMEMBERS', name)), most)
      if #found > 0 then
        real.call('SREM', name, unpack(found))
      end
      return found
    end,
  }
  local redis = setmetatable({
    call = function(command, ...)
      local made = instead[command]
      if made then
        return made(...)
      end
      return real.call(command, ...)
    end,
    pcall = function(command, ...)
      local made = instead[command]
      if not made then
        return real.pcall(command, ...)
      end
      local fine, reply = pcall(made, ...)
      return fine and reply or { err = 'refused' }
    end,
  }, { __index = real })
""".replace("TIME KEY", TIME)

#: Constants of the modules that say how much one call does, or how much is kept.
NARROW = {
    "arguments": {"Arguments.most": 7, "Arguments.tags": 3},
    "audit_jobs": {"TOLD": 2, "SEARCHED": 3},
    "bulk": {"MOST": 12, "ROUNDS": 2},
    "canceled": {"BYTES": 60, "ENTRIES": 2, "LIST": 12, "SURPLUS": 1},
    "cascade": {"PART": 1},
    "clock": {"EVERY": 4},
    "clock_repair": {"FEW": 3, "REMEMBERED": 2},
    "config": {"FEW": 2},
    "crossing": {"MOST": 2, "BYTES": 400},
    "cycle_detection": {"MOST": 4, "FAR": 4},
    "dead": {"MOST": 3},
    "deliveries": {"MOST": 3, "AT_ONCE": 1, "MOST_FORGOTTEN": 2},
    "dependencies": {"MOST": 3, "LIGHT": 2, "FEW": 2},
    "entity_actions": {"MOST": 2},
    "entity_run": {"MOST_JOBS": 2, "ENOUGH": 4, "ENOUGH_BYTES": 60},
    "entity_view": {"SHOWN": 30},
    "errors": {"MOST": 30},
    "exhausted": {"ENOUGH": 20},
    "existence_cache": {"ExistenceCache.many": 2},
    "expiry": {"EXPIRED": 1, "MANY": 3, "FEW": 1},
    "failure_groups": {"MOST": 2, "HEAD": 12, "TAIL": 20},
    "failures": {"Failures.groups": 2},
    "headline": {"MOST": 12},
    "history": {"PIECE": 2},
    "holders": {"LOOKED": 2},
    "job_view": {"MOST_LINKS": 2, "HISTORY_BYTES": 120},
    "limit_settings": {"ASIDE": 2},
    "limit_view": {"MOST": 1},
    "limits": {"CALLED": 2, "LOOKED": 1, "NEXT": 1},
    "minutes": {"LONGEST": 9},
    "moving": {"MOST": 2, "AT_ONCE": 1, "ENTRIES": 2, "BYTES": 100, "ENTRY_BYTES": 300},
    "nonempty": {"FEW": 1, "MOST": 3, "TOGETHER": 2},
    "payloads": {"Payloads.most": 3, "Payloads.bytes": 40, "FIRST": 1},
    "pop": {"LOOKED": 2, "MOST_LATE": 2},
    "queue_schedules": {"QUEUES": 2},
    "queue_stats": {"LEVELS": 2},
    "rates": {"EXACT": 2, "BUCKETS": 4},
    "record": {"SHOWN": 10},
    "result_waiters": {"MOST": 1},
    "retention": {"FOR_SURE": 20, "DROPPED": 1, "MARGIN": 2},
    "samples": {"FEW": 1, "MOST": 4},
    "schedule_view": {"MOST_MARKS": 2, "MOST_NEXT": 1},
    "schedules": {"MOST_DECLARED": 2},
    "search": {"BYTES": 20},
    "settle": {"Settle.most": 6},
    "sorted_set": {"PIECE": 4},
    "spawned": {"FEW": 1},
    "stand_ins": {"RESULTS": 20},
    "throughput": {"QUEUES": 2, "DAYS": 3},
    "turns": {"TRIED": 1},
    "worker_control": {"MOST": 2},
    "worker_view": {"SHOWN": 1, "LOOKED_AT": 2, "IN_ALL": 3},
    "workflow_verbs": {"STEP": 2},
}

TITLE = re.compile(r"^-- (?:\w+/)?(\w+)\.lua$", re.MULTILINE)

# One or several names, and as many values, perhaps with a comment.
GIVEN = re.compile(r"^(local )?([\w., ]+) = ([^-\n]+?)( --.*)?$", re.MULTILINE)


@cache
def altered(library: Library, narrow: bool) -> Library:
    """Return such a core. Raises KeyError if a constant is not there."""
    body = library.body
    if narrow:
        for module, values in NARROW.items():
            body = narrowed(body, module, values)
    if BUILD not in body:
        raise KeyError(f"the core has no line {BUILD}")
    changed = Library.__new__(Library)
    changed.set_body(body.replace(BUILD, BUILD + SHIM, 1))
    return changed


def narrowed(body: str, module: str, values: dict[str, int]) -> str:
    """Return the core with other constants in a module."""
    titles = list(TITLE.finditer(body))
    at = [title[1] for title in titles].index(module)
    start, end = titles[at].end(), titles[at + 1].start()
    before, source, after = body[:start], body[start:end], body[end:]
    left = dict(values)

    def replaced(found: re.Match[str]) -> str:
        names, given = found[2].split(", "), found[3].split(", ")
        if len(names) != len(given):
            return found[0]
        pairs = zip(names, given, strict=True)
        changed = [str(left.pop(name, said)) for name, said in pairs]
        return f"{found[1] or ''}{found[2]} = {', '.join(changed)}{found[4] or ''}"

    source = GIVEN.sub(replaced, source)
    if left:
        raise KeyError(f"{module}.lua has no {', '.join(left)}")
    return before + source + after
