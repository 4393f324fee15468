-- All that a page shows of one job, however many others it has to do with and however long it goes on.

local MOST_LINKS = 250 -- of one kind
local HISTORY_BYTES = 256 * 1024

-- Some members of a set, in an order of their own: never more are read than about so many. -> these,
-- how many there are
local function some(name, most)
  local total, cursor, members = call('SCARD', name), '0', {}
  repeat
    local reply = call('SSCAN', name, cursor, 'COUNT', math.max(most, 1))
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
  for _, jid in ipairs(most > 0 and call('LRANGE', name, 0, most - 1) or {}) do
    if not seen[jid] then
      seen[jid] = true
      found[#found + 1] = jid
    end
  end
  return found, call('LLEN', name)
end

-- The same of a canceled job, of which less is known.
local function canceled_view(jid, own, links)
  local total, spawners = Canceled.more(jid)
  local view = {
    brief = own,
    history_total = total,
    result = cjson.null,
    result_ttl = cjson.null,
    detached = cjson.null,
  }
  for _, list in ipairs({ 'dependents', 'dependencies', 'needs' }) do
    view[list], view[list .. '_total'] = {}, 0
  end
  local spawned, number = first(key.offspring(jid), links)
  view.spawned, view.spawned_total = JobSummary.rows(spawned), number
  view.spawners = JobSummary.rows({ unpack(spawners, 1, math.min(#spawners, links)) })
  return Json.with(cjson.encode(view), 'job', Canceled.show(jid))
end

-- job.view jid links history -> the job as get shows it, those it has to do with in brief, its result
function JobView.show(args, i)
  local jid = Arguments.name('job.view', 'jid', args[i])
  local links = math.min(Arguments.whole('job.view', 'links', args[i + 1], 0), MOST_LINKS)
  local entries = math.min(Arguments.whole('job.view', 'history', args[i + 2], 1), Arguments.most)
  local own = JobSummary.rows({ jid })[1]
  if not own then
    return nil
  elseif call('EXISTS', key.job(jid)) == 0 then
    return canceled_view(jid, own, links)
  end
  local lists, view = {}, { brief = own }
  for list, name in pairs({ dependents = key.dependents(jid), dependencies = key.dependencies(jid) }) do
    lists[list], view[list .. '_total'] = some(name, links)
    view[list] = JobSummary.rows(lists[list])
  end
  for list, name in pairs({ needs = key.needs(jid), spawned = key.offspring(jid) }) do
    local jids, total = first(name, links)
    view[list], view[list .. '_total'] = JobSummary.rows(jids), total
  end
  local spawners = Record.read('spawners', call('HGET', key.job(jid), 'spawners'), {})
  view.spawners = JobSummary.rows({ unpack(spawners, 1, math.min(#spawners, links)) })
  lists.history, view.history_total = History.some(jid, entries, HISTORY_BYTES)
  view.result = call('GET', key.result(jid)) or cjson.null
  local rest = call('PTTL', key.result(jid))
  view.result_ttl = rest >= 0 and rest / 1000 or cjson.null
  view.detached = call('GET', key.detached(jid)) or cjson.null
  return Json.with(cjson.encode(view), 'job', Job.show(jid, lists))
end
