-- The invariants of a namespace, checked in steps; each step judges only what one call saw.
-- First every key is visited (SCAN), then every list of jids, so that links are seen from both ends.
local Errors, Arguments, scope, key = Qless.Errors, Qless.Arguments, Qless.scope, Qless.key

local Audit = {}
Qless.Audit = Audit

local call, match, sub = redis.call, string.match, string.sub

-- Violations told in one step: the first of them say what is wrong.
local TOLD = 100

local function complain(report, text)
  if #report.violations < TOLD then
    report.violations[#report.violations + 1] = Errors.name(text)
  end
end

-- Where a job must be, by its state.
local PLACE = {
  waiting = 'work',
  stalled = 'work',
  running = 'locks',
  scheduled = 'scheduled',
  depends = 'depends',
}

local function check_running(report, jid, record)
  local expires, score = tonumber(record.expires) or 0, call('ZSCORE', key.place(record.queue, 'locks'), jid)
  local held = call('ZSCORE', key.held(record.worker), jid)
  if record.grace == '1' then
    if held then
      complain(report, 'job ' .. jid .. ' has lost its lock and is on the list of worker ' .. record.worker)
    end
    return
  end
  if expires == 0 then
    complain(report, 'job ' .. jid .. ' is running and never expires')
  end
  if score and math.abs(tonumber(score) - expires) > 1e-4 then
    complain(report, 'job ' .. jid .. ' expires at ' .. expires .. ', its lock at ' .. score)
  end
  if held and math.abs(tonumber(held) - expires) > 1e-4 then
    complain(report, 'job ' .. jid .. ' expires at ' .. expires .. ', on the list of its worker at ' .. held)
  end
  -- A worker that was silent for too long has been forgotten, and its list with it.
  if not held and expires > scope.now and call('ZSCORE', key.workers(), record.worker) then
    complain(report, 'job ' .. jid .. ' is running but not on the list of worker ' .. record.worker)
  end
end

local function check_depends(report, jid, record)
  if record.open == '1' then
    return
  end
  local others = call('SRANDMEMBER', key.dependencies(jid), Arguments.most)
  if #others == 0 then
    complain(report, 'job ' .. jid .. ' depends on nothing')
  end
  for _, other in ipairs(others) do
    local state = call('HGET', key.job(other), 'state')
    if (state or 'complete') == 'complete' and not call('ZSCORE', key.releasing(), other) then
      complain(report, 'job ' .. jid .. ' waits for ' .. other .. ', which is ' .. (state or 'gone'))
    elseif call('SISMEMBER', key.dependents(other), jid) == 0 then
      complain(report, 'job ' .. other .. ' does not know its dependent ' .. jid)
    end
  end
end

local function check_dependents(report, jid)
  for _, other in ipairs(call('SRANDMEMBER', key.dependents(jid), Arguments.most)) do
    if call('SISMEMBER', key.dependencies(other), jid) == 0 then
      complain(report, 'job ' .. other .. ' does not know that it waits for ' .. jid)
    end
  end
end

-- Finding a job in a failure group is linear: done in short ones only.
local SEARCHED = 200

local function check_failed(report, jid, record)
  local group = cjson.decode(record.failure or '{}').group
  if not group then
    complain(report, 'job ' .. jid .. ' failed without a group')
  elseif
    call('SISMEMBER', key.failures(), group) == 0 and call('SISMEMBER', key.failures(), 'other') == 0
  then
    complain(report, 'failure group ' .. group .. ' of job ' .. jid .. ' is not listed')
  elseif call('LLEN', key.group(group)) <= SEARCHED then
    local times = #call('LPOS', key.group(group), jid, 'COUNT', 0)
    if times ~= 1 and call('SISMEMBER', key.failures(), 'other') == 0 then
      complain(report, 'job ' .. jid .. ' is ' .. times .. ' times in its failure group ' .. group)
    end
  end
end

local function check_places(report, jid, record)
  local wanted = PLACE[record.state]
  for _, place in ipairs({ 'work', 'locks', 'scheduled', 'depends' }) do
    local there = call('ZSCORE', key.place(record.queue, place), jid)
    if there and place ~= wanted then
      complain(
        report,
        'job ' .. jid .. ' is ' .. record.state .. ' and in ' .. place .. ' of ' .. record.queue
      )
    elseif not there and place == wanted then
      complain(
        report,
        'job ' .. jid .. ' is ' .. record.state .. ' but not in ' .. place .. ' of ' .. record.queue
      )
    end
  end
  local completed = call('ZSCORE', key.completed(), jid)
  if record.state == 'complete' and not completed then
    complain(report, 'job ' .. jid .. ' is complete but not among the completed')
  elseif completed and record.state ~= 'complete' then
    complain(report, 'job ' .. jid .. ' is ' .. record.state .. ' and among the completed')
  elseif not wanted and record.state ~= 'complete' and record.state ~= 'failed' then
    complain(report, 'job ' .. jid .. ' has no such state: ' .. tostring(record.state))
  end
end

local FIELDS = {
  'jid',
  'state',
  'queue',
  'worker',
  'expires',
  'grace',
  'failure',
  'tags',
  'open',
  'token',
  'remaining',
  'retries',
}

local function check_numbers(report, jid, record)
  local last = tonumber(call('HGET', key.meta(), 'token')) or 0
  if record.token and tonumber(record.token) > last then
    complain(report, 'token ' .. record.token .. ' of job ' .. jid .. ' is above the last one drawn')
  end
  local remaining = tonumber(record.remaining)
  if
    not remaining
    or remaining < -1
    or remaining ~= math.floor(remaining)
    or remaining > (tonumber(record.retries) or -1)
  then
    complain(
      report,
      'job '
        .. jid
        .. ' has '
        .. tostring(record.remaining)
        .. ' of '
        .. tostring(record.retries)
        .. ' retries left'
    )
  end
end

local function check_job(report, jid)
  local values, record = call('HMGET', key.job(jid), unpack(FIELDS)), {}
  for n, field in ipairs(FIELDS) do
    record[field] = values[n] or nil
  end
  if record.jid ~= jid or not record.state or not record.queue or not record.worker then
    complain(report, 'record of job ' .. jid .. ' is damaged')
    return
  end
  if call('EXISTS', key.history(jid)) == 0 then
    complain(report, 'job ' .. jid .. ' has no history')
  end
  check_places(report, jid, record)
  check_numbers(report, jid, record)
  check_dependents(report, jid)
  for _, tag in ipairs(cjson.decode(record.tags or '{}')) do
    if not call('ZSCORE', key.tag(tag), jid) then
      complain(report, 'tag ' .. tag .. ' does not know job ' .. jid)
    end
  end
  if record.state == 'running' then
    check_running(report, jid, record)
  elseif record.state == 'depends' then
    check_depends(report, jid, record)
  elseif record.state == 'failed' then
    check_failed(report, jid, record)
  end
end

local function check_job_key(report, name)
  local jid, part = match(name, '^(.*)%-(history)$')
  if not jid then
    jid, part = match(name, '^(.*)%-(dependencies)$')
  end
  if not jid then
    jid, part = match(name, '^(.*)%-(dependents)$')
  end
  if not jid then
    check_job(report, name)
  elseif
    call('EXISTS', key.job(jid)) == 0 and not (part == 'dependents' and call('ZSCORE', key.releasing(), jid))
  then
    complain(report, 'there is a ' .. part .. ' of job ' .. jid .. ', but no record')
  elseif part == 'dependencies' and call('HGET', key.job(jid), 'state') ~= 'depends' then
    complain(report, 'job ' .. jid .. ' has dependencies but does not wait for them')
  end
end

local function check_template(report, jid)
  local queue = call('HGET', key.template(jid), 'queue')
  if not queue or not call('ZSCORE', key.place(queue, 'recur'), jid) then
    complain(report, 'recurring job ' .. jid .. ' is in no queue')
  end
end

local function check_group(report, group)
  if call('SISMEMBER', key.failures(), group) == 0 then
    complain(report, 'failure group ' .. group .. ' is not listed')
  end
end

local function check_tag(report, tag)
  local members, counted = call('ZCARD', key.tag(tag)), tonumber(call('ZSCORE', key.tags(), tag) or '0')
  if members ~= counted then
    complain(report, 'tag ' .. tag .. ' is on ' .. members .. ' jobs, counted ' .. counted)
  end
end

-- Keys that need no look of their own, and those that do, by the text after the prefix.
local ALONE = {}
for _, name in ipairs({
  'config',
  'queues',
  'paused_queues',
  'workers',
  'failures',
  'tracked',
  'tags',
  'completed',
  'meta',
  'releasing',
  'idle',
  'wake',
}) do
  ALONE[name] = true
end
local FAMILY = {
  { 'j:', check_job_key },
  { 'r:', check_template },
  { 'f:', check_group },
  { 't:', check_tag },
}
for _, start in ipairs({ 's:', 'm:', 'result:', 'reply:', 'worker:', 'idle:', 'wake:', 'timer:' }) do
  FAMILY[#FAMILY + 1] = { start }
end

local function check_key(report, name)
  if ALONE[name] then
    return
  end
  for _, family in ipairs(FAMILY) do
    local start = family[1]
    if sub(name, 1, #start) == start then
      if family[2] then
        family[2](report, sub(name, #start + 1))
      end
      return
    end
  end
  complain(report, 'key ' .. scope.prefix .. name .. ' is none of ours')
end

-- What a member of a queue's place, of a worker's list and so on must be.
local function member_of_place(place)
  return function(report, jid, queue)
    local record = call('HMGET', key.job(jid), 'state', 'queue')
    if not record[1] then
      complain(report, 'job ' .. jid .. ' is in ' .. place .. ' of ' .. queue .. ', but has no record')
    elseif PLACE[record[1]] ~= place or record[2] ~= queue then
      complain(
        report,
        'job ' .. jid .. ' is in ' .. place .. ' of ' .. queue .. ', but ' .. record[1] .. ' in ' .. record[2]
      )
    end
  end
end

local function member_of_recur(report, jid, queue)
  if call('HGET', key.template(jid), 'queue') ~= queue then
    complain(report, 'recurring job ' .. jid .. ' in queue ' .. queue .. ' has no template there')
  end
end

local function member_of_worker(report, jid, worker)
  local record = call('HMGET', key.job(jid), 'state', 'worker')
  if record[1] ~= 'running' or record[2] ~= worker then
    complain(report, 'job ' .. jid .. ' is on the list of worker ' .. worker .. ', which does not run it')
  end
end

-- Lists whose owner is not listed (any more) are checked when their key is met, as far as
-- one step goes; those of listed owners in the second part.
local function check_place_key(report, name)
  local queue, place = match(name, '^(.*)%-(%a+)$')
  if not queue or call('ZSCORE', key.queues(), queue) then
    return
  end
  local check = place == 'recur' and member_of_recur or member_of_place(place)
  for _, jid in ipairs(call('ZRANGE', key.place(queue, place), 0, Arguments.most - 1)) do
    check(report, jid, queue)
  end
end

local function check_held_key(report, name)
  local worker = match(name, '^(.*):jobs$')
  if worker and not call('ZSCORE', key.workers(), worker) then
    for _, jid in ipairs(call('ZRANGE', key.held(worker), 0, Arguments.most - 1)) do
      member_of_worker(report, jid, worker)
    end
  end
end

FAMILY[#FAMILY + 1] = { 'q:', check_place_key }
FAMILY[#FAMILY + 1] = { 'w:', check_held_key }

local function member_of_group(report, jid, group)
  local record = call('HMGET', key.job(jid), 'state', 'failure')
  local filed = record[1] == 'failed' and cjson.decode(record[2] or '{}').group
  if not filed or (filed ~= group and group ~= 'other') then
    complain(report, 'job ' .. jid .. ' is in failure group ' .. group .. ', but has not failed in it')
  end
end

local function member_of_tag(report, jid, tag)
  local tags = call('HGET', key.job(jid), 'tags')
  for _, name in ipairs(cjson.decode(tags or '{}')) do
    if name == tag then
      return
    end
  end
  complain(report, 'tag ' .. tag .. ' lists job ' .. jid .. ', which does not carry it')
end

local function member_of_completed(report, jid)
  if call('HGET', key.job(jid), 'state') ~= 'complete' then
    complain(report, 'job ' .. jid .. ' is among the completed, but is not complete')
  end
end

local function range(name, first, last)
  return call('ZRANGE', name, first, last)
end

-- Every list of jids, in an order that two steps see alike.
local function lists()
  local all = { { key.completed(), '', member_of_completed } }
  local queues = call('ZRANGE', key.queues(), 0, -1)
  table.sort(queues)
  for _, queue in ipairs(queues) do
    for _, place in ipairs({ 'work', 'locks', 'scheduled', 'depends' }) do
      all[#all + 1] = { key.place(queue, place), queue, member_of_place(place) }
    end
    all[#all + 1] = { key.place(queue, 'recur'), queue, member_of_recur }
  end
  for _, worker in ipairs(call('ZRANGE', key.workers(), 0, -1)) do
    all[#all + 1] = { key.held(worker), worker, member_of_worker }
  end
  local groups = call('SMEMBERS', key.failures())
  table.sort(groups)
  for _, group in ipairs(groups) do
    all[#all + 1] = { key.group(group), group, member_of_group, true }
  end
  for _, tag in ipairs(call('ZRANGE', key.tags(), 0, -1)) do
    all[#all + 1] = { key.tag(tag), tag, member_of_tag }
  end
  return all
end

-- Checks up to `count` members from the list and the offset on. -> the next cursor
local function check_lists(report, at, offset, count)
  local all = lists()
  while at <= #all and count > 0 do
    local list = all[at]
    local name, owner, check = list[1], list[2], list[3]
    local members = list[4] and call('LRANGE', name, offset, offset + count - 1)
      or range(name, offset, offset + count - 1)
    if offset == 0 and #members == 0 and (list[4] or check == member_of_tag) then
      complain(report, (list[4] and 'failure group ' or 'tag ') .. owner .. ' is listed but empty')
    end
    for _, jid in ipairs(members) do
      check(report, jid, owner)
    end
    report.checked = report.checked + #members
    count = count - math.max(#members, 1)
    if #members == 0 or count > 0 then
      at, offset = at + 1, 0
    else
      offset = offset + #members
    end
  end
  return at > #all and '0' or 'list:' .. at .. ':' .. offset
end

local function check_keys(report, cursor, count)
  local glob = string.gsub(scope.prefix, '[%*%?%[%]%\\]', '\\%0') .. '*'
  local reply = call('SCAN', cursor, 'MATCH', glob, 'COUNT', count)
  for _, name in ipairs(reply[2]) do
    check_key(report, sub(name, #scope.prefix + 1))
  end
  report.checked = report.checked + #reply[2]
  return reply[1] == '0' and 'list:1:0' or 'key:' .. reply[1]
end

-- audit cursor [count]: begins with cursor 0, has ended when it answers 0
function Audit.audit(args, i)
  local cursor = Arguments.given('audit', 'cursor', args[i])
  local count = math.max(Arguments.count('audit', args[i + 1], Arguments.most), 1)
  local report = { checked = 0, violations = {} }
  local at, offset = match(cursor, '^list:(%d+):(%d+)$')
  if at then
    report.cursor = check_lists(report, tonumber(at), tonumber(offset), count)
  else
    local scan = cursor == '0' and '0' or match(cursor, '^key:(%d+)$')
    if not scan then
      Errors.argument('audit', 'cursor must be 0 or what the last step answered, not ' .. Errors.name(cursor))
    end
    report.cursor = check_keys(report, scan, count)
  end
  return cjson.encode(report)
end
