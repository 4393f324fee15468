-- Jobs in brief: what a line of a list shows of each, and parts of all the lists that there are.

local match = string.match
local rcall = redis.call

-- The places in a row. The first eleven are fields of the record as they are.
local KLASS, QUEUE, STATE, PRIORITY, RETRIES, REMAINING, TAGS, WORKER, SINCE, EXPIRES =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local DUE, GROUP, PROGRESS, WORKFLOW, TRACKED, PUT, JID = 12, 13, 14, 15, 16, 17, 18

local NUMBERS = { PRIORITY, RETRIES, REMAINING, SINCE, EXPIRES }

-- (Naming the fields one by one is a sixth quicker than unpacking a list of them.)
local function read(call, jid)
  return rcall(
    'HMGET',
    Keys.job(call, jid),
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
    'put',
    'progress',
    'workflow'
  )
end

-- What cannot be read is not shown.
local function judge(row)
  for n = 1, #NUMBERS do
    local place = NUMBERS[n]
    row[place] = Times.finite(row[place]) and row[place] or false
  end
  if not pcall(Json.stored, row[TAGS]) then
    row[TAGS] = false
  end
  if row[PROGRESS] == '' or not pcall(Json.stored, row[PROGRESS]) then
    row[PROGRESS] = false
  end
end

-- A running job whose lock has ended is stalled. (The queue's list knows whether there was a notice, which prolongs it.)
local function see_lock(call, row, jid)
  local lock = rcall('ZSCORE', Keys.queue(call, row[QUEUE]).locks, jid)
  if lock and tonumber(lock) <= call.now then
    row[STATE], row[SINCE] = 'stalled', lock
  end
end

local function see_due(call, row, jid)
  local state, due = Job.state_now(call, jid, row[QUEUE], row[STATE])
  if state == 'waiting' then
    row[STATE], row[SINCE] = state, due
  else
    row[DUE] = due
  end
end

-- When and in which group a job has failed: mostly the last line of its history says so, which is shorter than the
-- record's text with the whole message. -> when, group
function JobSummary.failure(call, jid)
  local last = rcall('LINDEX', Keys.history(call, jid), -1) or ''
  local when, more = match(last, '^%[([%d.]+),"failed",(.*)%]$')
  if when then
    return when, match(more, '"group":"([^"\\]*)"') or Json.shown(more).group
  end
  local failure = Json.shown(rcall('HGET', Keys.job(call, jid), 'failure'))
  when = tonumber(failure.when)
  return when and string.format('%.17g', when), failure.group
end

local function see_failure(call, row, jid)
  local when, group = JobSummary.failure(call, jid)
  row[SINCE], row[GROUP] = when or row[SINCE], group or false
end

local SEE = {
  running = function(call, row, jid)
    if (tonumber(row[EXPIRES]) or 0) <= call.now then
      see_lock(call, row, jid)
    end
  end,
  scheduled = see_due,
  stalled = see_due,
  failed = see_failure,
}

-- What became of a canceled job, as a row; or false.
local function row_of_canceled(call, jid)
  local row = CanceledView.row(call, jid)
  if row then
    row[WORKFLOW], row[DUE], row[GROUP], row[PROGRESS] = row[DUE], false, false, false
    row[STATE], row[WORKER] = 'canceled', ''
    row[TRACKED], row[JID] = Job.is_tracked(call, jid), jid
    row[PUT] = History.begun(Keys.canceled_history(call, jid))
  end
  return row
end

-- The row of one job, or false if there is no such job.
function JobSummary.row(call, jid)
  local row = read(call, jid)
  local state, put, progress, workflow = row[STATE], row[12], row[13], row[14]
  if not (state or row[KLASS] or row[QUEUE]) then
    return row_of_canceled(call, jid)
  end
  row[STATE], row[KLASS], row[QUEUE] = state or '', row[KLASS] or '', row[QUEUE] or ''
  row[WORKER], row[EXPIRES] = row[WORKER] or '', row[EXPIRES] or '0'
  row[DUE], row[GROUP], row[PROGRESS], row[WORKFLOW] = false, false, progress, workflow
  judge(row)
  if SEE[state] then
    SEE[state](call, row, jid)
  end
  row[TRACKED], row[JID] = Job.is_tracked(call, jid), jid
  row[PUT] = History.begun(Keys.history(call, jid), put)
  return row
end

-- The rows of jobs, with false for each that is gone.
function JobSummary.rows(call, jids)
  local rows = {}
  for n = 1, #jids do
    rows[n] = JobSummary.row(call, jids[n])
  end
  return rows
end

-- brief jid... -> the rows as JSON
function JobSummary.brief(call, args, i)
  local jids = Pieces.rest(args, i)
  Arguments.bounded(call, #jids)
  return cjson.encode(JobSummary.rows(call, jids))
end

local function newest_first(name, start, count)
  return rcall('ZREVRANGE', name, start, start + count - 1)
end

-- Lists beside those of queues: `count` jids from a place on.
local LISTS = {
  group = function(call, name, start, count)
    return rcall('LRANGE', Keys.group(call, name), start, start + count - 1)
  end,
  tag = function(call, name, start, count)
    return rcall('ZRANGE', Keys.tag(call, name), start, start + count - 1)
  end,
  worker = function(call, name, start, count)
    return newest_first(Keys.held(call, name), start, count)
  end,
  complete = function(call, _, start, count)
    return newest_first(call.keys.completed, start, count)
  end,
  canceled = function(call, _, start, count)
    return Cancel.part(call, start, count)
  end,
  tracked = function(call, _, start, count)
    return newest_first(call.keys.tracked, start, count)
  end,
}

-- The parts of lists, (kind name start count)... from args[i] on.
function JobSummary.parts(call, args, i)
  Arguments.bounded(call, (#args - i + 1) / 4)
  local parts = {}
  for n = i, #args, 4 do
    local kind = args[n]
    if not LISTS[kind] and (not QueueView.is_list(kind) or kind == 'recurring') then
      Errors.argument(call, 'Unknown kind of list ' .. Errors.name(kind))
    end
    parts[#parts + 1] = {
      kind = kind,
      name = Arguments.given(call, 'name', args[n + 1]),
      start = Arguments.whole(call, 'start', args[n + 2], 0),
      count = Arguments.whole(call, 'count', args[n + 3], 0),
    }
  end
  return parts
end

-- The jids of a part: `most` at most.
function JobSummary.jids(call, part, most)
  local count = math.min(part.count, most)
  if count < 1 then
    return {}
  elseif LISTS[part.kind] then
    return LISTS[part.kind](call, part.name, part.start, count)
  end
  return QueueView.jids(call, part.kind, Keys.queue(call, part.name), { offset = part.start, count = count })
end

-- briefs most (kind name start count)... -> the rows as JSON
function JobSummary.briefs(call, args, i)
  local most = Arguments.whole(call, 'most', args[i], 0)
  Arguments.bounded(call, most)
  local jids = {}
  for _, part in ipairs(JobSummary.parts(call, args, i + 1)) do
    for _, jid in ipairs(JobSummary.jids(call, part, most - #jids)) do
      jids[#jids + 1] = jid
    end
  end
  return cjson.encode(JobSummary.rows(call, jids))
end

-- tracked.jids offset count -> total and jids, the last first; some may be gone
function JobSummary.tracked(call, args, i)
  local offset = Arguments.whole(call, 'offset', args[i], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 1], 0), Arguments.most)
  local jids = count > 0 and newest_first(call.keys.tracked, offset, count) or {}
  return cjson.encode({ total = rcall('ZCARD', call.keys.tracked), jobs = jids })
end
