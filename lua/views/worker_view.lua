-- Workers with the jobs that they hold, for a page.

local rcall = redis.call

local SHOWN = 5 -- jobs of a worker
local LOOKED_AT = 100 -- of those that it holds, to find the longest running; …
local IN_ALL = 5000 -- … and of all workers of a call

-- The jobs that a worker has held for the longest time, of the first to expire.
local function longest_held(call, worker, looked_at)
  local held = {}
  for n, jid in ipairs(rcall('ZRANGE', Keys.held(call, worker), 0, looked_at - 1)) do
    held[n] = { jid = jid, since = tonumber(rcall('HGET', Keys.job(call, jid), 'time') or nil) or 0 }
  end
  table.sort(held, function(one, other)
    if one.since ~= other.since then
      return one.since < other.since
    end
    return one.jid < other.jid
  end)
  local jids = {}
  for n = 1, math.min(SHOWN, #held) do
    jids[n] = held[n].jid
  end
  return jids
end

-- worker.views offset count -> total, and workers: each as `workers` shows it, with some of its jobs
function WorkerView.list(call, args, i)
  local offset = Arguments.whole(call, 'offset', args[i], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 1], 0), Arguments.most)
  local looked_at = math.max(SHOWN, math.min(LOOKED_AT, math.floor(IN_ALL / math.max(count, 1))))
  local shown, seen, total = {}, Worker.seen(call, offset, count)
  for n = 1, #seen, 2 do
    local rows = JobSummary.rows(call, longest_held(call, seen[n], looked_at))
    local jobs = cjson.encode({ jobs = rows })
    shown[#shown + 1] = Json.with(jobs, 'worker', Worker.shown(call, seen[n], seen[n + 1]))
  end
  return Json.with(cjson.encode({ total = total }), 'workers', Json.list(shown))
end
