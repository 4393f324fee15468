-- Jobs in brief: what a line of a list shows of each, and parts of all the lists that there are.

local match = string.match

-- Places in a row: the first twelve are fields of the record as they are, but for `due`, which stands
-- where `rare` stood.
local KLASS, QUEUE, STATE, WORKER, SINCE, EXPIRES, DUE = 1, 2, 3, 8, 9, 10, 12
local GROUP, PROGRESS, WORKFLOW, TRACKED, PUT, JID = 13, 14, 15, 16, 17, 18

-- The places of what is no mere text: what cannot be read is not shown.
local JUDGED = {
  [4] = 'priority',
  [5] = 'retries',
  [6] = 'remaining',
  [7] = 'tags',
  [SINCE] = 'time',
  [EXPIRES] = 'expires',
}

-- (Naming the fields one by one is a sixth quicker than unpacking a list of them.)
local function read(jid)
  return call(
    'HMGET',
    key.job(jid),
    'klass',
    'queue',
    'state',
    'priority',
    'retries',
    'remaining',
    'tags',
    'worker',
    'time',
    'expires',
    'spawned_from_jid',
    'rare',
    'put'
  )
end

-- What a running job is whose lock has ended: the queue's list knows whether there was a notice.
local function see_lock(row, jid)
  local lock = call('ZSCORE', key.place(row[QUEUE], 'locks'), jid)
  if lock and tonumber(lock) <= scope.now then
    row[STATE], row[SINCE] = 'stalled', lock
  end
end

local function see_due(row, jid)
  local state, due = Places.state_now(jid, row[QUEUE], row[STATE])
  if state == 'waiting' then
    row[STATE], row[SINCE] = state, due
  else
    row[DUE] = due
  end
end

-- When and in which group a job has failed: mostly the last line of its history says so, which is
-- shorter than the record's text with the whole message. -> when, group
function JobSummary.failure(jid)
  local when, more = match(call('LINDEX', key.history(jid), -1) or '', '^%[([%d.]+),"failed",(.*)%]$')
  if when then
    return when, match(more, '"group":"([^"\\]*)"') or Record.read('failure', more, {}).group
  end
  local failure = Record.read('failure', call('HGET', key.job(jid), 'failure'), {})
  return failure.when and string.format('%.17g', failure.when), failure.group
end

local function see_failure(row, jid)
  local when, group = JobSummary.failure(jid)
  row[SINCE], row[GROUP] = when or row[SINCE], group or false
end

-- Are there tracked jobs at all?
function JobSummary.any_tracked()
  return call('EXISTS', key.tracked()) == 1
end

-- What became of a canceled job, as a row; or false.
local function row_of_canceled(jid, tracking)
  local row = Canceled.row(jid)
  if row then
    local workflow, history = row[12], row[13]
    row[STATE], row[WORKER], row[DUE], row[GROUP], row[PROGRESS] = 'canceled', '', false, false, false
    row[WORKFLOW] = workflow
    row[TRACKED] = tracking and call('ZSCORE', key.tracked(), jid) ~= false
    row[PUT] = match(history or '', '^%[%[([%d.]+),') or false
    row[JID] = jid
  end
  return row
end

-- The row of one job, or false if there is no such job.
function JobSummary.row(jid, tracking)
  local row = read(jid)
  local state, rare = row[STATE], row[DUE]
  local first = History.unwritten(row[DUE + 1], row[QUEUE])
  if not Record.is_state(state) then
    if not (state or row[KLASS] or row[QUEUE]) then
      return row_of_canceled(jid, tracking)
    end
    row[STATE] = state or ''
  end
  row[KLASS], row[QUEUE] = row[KLASS] or '', row[QUEUE] or ''
  for place, field in pairs(JUDGED) do
    row[place] = Record.text(field, row[place], false)
  end
  row[DUE], row[GROUP], row[PROGRESS], row[WORKFLOW] = false, false, false, false
  if rare then
    local progress, workflow = Hash.values(key.job(jid), 'progress', 'workflow')
    row[PROGRESS], row[WORKFLOW] = Record.text('progress', progress, false), workflow
  end
  if state == 'running' then
    if (tonumber(row[EXPIRES]) or 0) <= scope.now then
      see_lock(row, jid)
    end
  elseif state == 'scheduled' then
    see_due(row, jid)
  elseif state == 'failed' then
    see_failure(row, jid)
  elseif state == 'stalled' then
    row[STATE] = 'waiting' -- taken from its worker: it is the first to be handed out
  end
  row[TRACKED] = tracking and call('ZSCORE', key.tracked(), jid) ~= false
  row[PUT] = match(first or call('LINDEX', key.history(jid), 0) or '', '^%[([%d.]+),') or false
  row[JID] = jid
  return row
end

-- The rows of jobs, with false for each that is gone.
function JobSummary.rows(jids)
  local rows, tracking = {}, JobSummary.any_tracked()
  for n = 1, #jids do
    rows[n] = JobSummary.row(jids[n], tracking)
  end
  return rows
end

-- brief jid... -> the rows as JSON
function JobSummary.brief(args, i)
  Arguments.bounded('brief', #args - i + 1)
  local jids = {}
  for n = i, #args do
    jids[#jids + 1] = args[n]
  end
  return cjson.encode(JobSummary.rows(jids))
end

local function newest_first(name, start, count)
  return call('ZREVRANGE', name, start, start + count - 1)
end

-- Lists beside those of queues: jids from a place on, so many.
local LISTS = {
  group = function(name, start, count)
    return call('LRANGE', key.group(name), start, start + count - 1)
  end,
  tag = function(name, start, count)
    return call('ZRANGE', key.tag(name), start, start + count - 1)
  end,
  worker = function(name, start, count)
    return newest_first(key.held(name), start, count)
  end,
  complete = function(_, start, count)
    return newest_first(key.completed(), start, count)
  end,
  canceled = function(_, start, count)
    return Canceled.part(start, count)
  end,
  tracked = function(_, start, count)
    return newest_first(key.tracked(), start, count)
  end,
}

-- Checks parts of lists, (kind name start count)... from args[i] on.
function JobSummary.check_parts(command, args, i)
  Arguments.bounded(command, (#args - i + 1) / 4)
  for n = i, #args, 4 do
    local kind = args[n]
    if not LISTS[kind] and (not Queue.is_list(kind) or kind == 'recurring') then
      Errors.argument(command, 'Unknown kind of list ' .. Errors.name(kind))
    end
    Arguments.given(command, 'name', args[n + 1])
    args[n + 2] = Arguments.whole(command, 'start', args[n + 2], 0)
    args[n + 3] = Arguments.whole(command, 'count', args[n + 3], 0)
  end
end

-- Jids of a part of a list.
local function part(kind, name, start, count)
  if count < 1 then
    return {}
  end
  return LISTS[kind] and LISTS[kind](name, start, count) or Queue.part(kind, name, start, count)
end

-- The jids of parts that were checked, the place of each among all that the parts name, and how many
-- places these are: at most as many as a call may handle.
function JobSummary.listed(args, i)
  local jids, places, before = {}, {}, 0
  for n = i, #args, 4 do
    local count = math.min(args[n + 3], Arguments.most - before)
    for at, jid in ipairs(part(args[n], args[n + 1], args[n + 2], count)) do
      jids[#jids + 1], places[#places + 1] = jid, before + at
    end
    before = before + count
  end
  return jids, places, before
end

-- tracked.jids offset count -> total and jids, the last first; some may be gone
function JobSummary.tracked(args, i)
  local offset = Arguments.whole('tracked.jids', 'offset', args[i], 0)
  local count = math.min(Arguments.whole('tracked.jids', 'count', args[i + 1], 0), Arguments.most)
  local jids = count > 0 and newest_first(key.tracked(), offset, count) or {}
  return cjson.encode({ total = call('ZCARD', key.tracked()), jobs = jids })
end

-- briefs most (kind name start count)... -> the rows as JSON
function JobSummary.briefs(args, i)
  local most = Arguments.whole('briefs', 'most', args[i], 0)
  Arguments.bounded('briefs', most)
  JobSummary.check_parts('briefs', args, i + 1)
  local jids = {}
  for n = i + 1, #args, 4 do
    for _, jid in ipairs(part(args[n], args[n + 1], args[n + 2], math.min(args[n + 3], most - #jids))) do
      jids[#jids + 1] = jid
    end
  end
  return cjson.encode(JobSummary.rows(jids))
end
