-- All that a page shows of one job, however many others it has to do with and however long it goes on.

local rcall = redis.call

local MOST_LINKS = 250 -- of one kind
local HISTORY_BYTES = 256 * 1024

-- Some members of a set, sorted: about as many are read as are wanted. -> these, how many there are
local function some(name, most)
  local total, cursor, members = rcall('SCARD', name), '0', {}
  repeat
    local reply = rcall('SSCAN', name, cursor, 'COUNT', math.max(most, 1))
    cursor = reply[1]
    for _, member in ipairs(reply[2]) do
      if #members == most then
        break
      end
      members[#members + 1] = member
    end
  until cursor == '0' or #members == most
  table.sort(members)
  return members, total
end

-- The first elements of a list, each once. -> these, how many the list has
local function first(name, most)
  local found, seen = {}, {}
  for _, jid in ipairs(most > 0 and rcall('LRANGE', name, 0, most - 1) or {}) do
    if not seen[jid] then
      seen[jid] = true
      found[#found + 1] = jid
    end
  end
  return found, rcall('LLEN', name)
end

-- The job that has spawned it, as a list.
local function spawners(call, record, links)
  return JobSummary.rows(call, links > 0 and { record.parent } or {})
end

local function add_spawned(call, view, jid, links)
  local jids, total = first(Keys.offspring(call, jid), links)
  view.spawned, view.spawned_total = JobSummary.rows(call, jids), total
end

-- Adds the result and the latest run of a detached job.
local function add_outcome(call, view, jid)
  view.result = rcall('GET', Keys.result(call, jid)) or cjson.null
  local rest = rcall('PTTL', Keys.result(call, jid))
  view.result_ttl = rest >= 0 and rest / 1000 or cjson.null
  view.detached = rcall('GET', Keys.detached(call, jid)) or cjson.null
end

-- The page of a canceled job, of which less is known.
local function canceled(call, jid, view, links)
  local record = CanceledView.read(call, jid)
  for _, list in ipairs({ 'dependents', 'dependencies', 'needs' }) do
    view[list], view[list .. '_total'] = {}, 0
  end
  add_spawned(call, view, jid, links)
  view.spawners = spawners(call, record, links)
  view.history_total = #History.shown(call, CanceledView.history(call, jid))
  view.result, view.result_ttl, view.detached = cjson.null, cjson.null, cjson.null
  return Json.with(cjson.encode(view), 'job', CanceledView.show(call, jid))
end

-- job.view jid links history -> the job as get shows it, those it has to do with in brief, its result
function JobPage.show(call, args, i)
  local jid = Arguments.name(call, 'jid', args[i])
  local links = math.min(Arguments.whole(call, 'links', args[i + 1], 0), MOST_LINKS)
  local entries = math.min(Arguments.whole(call, 'history', args[i + 2], 1), Arguments.most)
  local brief, job = JobSummary.row(call, jid), Job.read(call, jid)
  if not brief then
    return nil
  elseif not job then
    return canceled(call, jid, { brief = brief }, links)
  end
  local lists, view = {}, { brief = brief }
  for _, list in ipairs({ 'dependents', 'dependencies' }) do
    lists[list], view[list .. '_total'] = some(Keys[list](call, jid), links)
    view[list] = JobSummary.rows(call, lists[list])
  end
  local needs, number = first(Keys.needs(call, jid), links)
  view.needs, view.needs_total = JobSummary.rows(call, needs), number
  add_spawned(call, view, jid, links)
  view.spawners = spawners(call, job, links)
  lists.history, view.history_total = History.some(call, job, entries, HISTORY_BYTES)
  add_outcome(call, view, jid)
  return Json.with(cjson.encode(view), 'job', JobView.of(call, job, lists))
end
