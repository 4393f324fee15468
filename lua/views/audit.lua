-- The invariants of a namespace, checked in steps; each step judges only what one call saw.
-- First every key is visited (SCAN), then every list of jids, so that links are seen from both ends.

local match, sub = string.match, string.sub

local complain = AuditJobs.complain

-- What the lists of a job are, by the ends of their keys.
local TYPES = { ['-history'] = 'list', ['-dependencies'] = 'set', ['-dependents'] = 'set' }

local function check_job_key(report, name)
  local ending = key.list_ending(name)
  if not ending then
    AuditJobs.check(report, name)
    return
  end
  local jid, part = sub(name, 1, -#ending - 1), sub(ending, 2)
  local is = call('TYPE', scope.prefix .. 'j:' .. name).ok
  if is ~= TYPES[ending] then
    complain(report, 'key %sj:%s is a %s, not the %s of a job: delete it', scope.prefix, name, is, part)
  elseif
    call('EXISTS', key.job(jid)) == 0
    and not (part == 'dependents' and (AuditJobs.is_told_later(jid) or AuditWorkflows.is_gate(jid)))
  then
    complain(report, 'there is a %s of job %s, but no record', part, jid)
  elseif part == 'dependencies' and call('HGET', key.job(jid), 'state') ~= 'depends' then
    complain(report, 'job %s has dependencies but does not wait for them', jid)
  end
end

-- A schedule of either kind goes on in its place, or it is paused and in no place.
local function check_schedule(report, id, record, place)
  local placed, paused = call('ZSCORE', place, id), call('ZSCORE', key.paused_schedules(), id)
  if record.paused and (placed or not paused) then
    complain(report, 'schedule %s is paused, but goes on', id)
  elseif not record.paused and (paused or not placed) then
    complain(report, 'recurring job %s is in no queue', id)
  end
  local declared = call('HGET', key.declared_schedules(), id) or nil
  if declared ~= record.declared then
    complain(report, 'schedule %s is declared otherwise than its record says', id)
  end
end

-- The record of a schedule, which must be one that can put jobs.
local function read_schedule(report, id, name)
  local record = Hash.all(name)
  local field, text = Record.bad_schedule(record)
  if field then
    complain(report, 'schedule %s puts no jobs. %s', id, Record.words(field, text))
  end
  return record
end

local function check_template(report, jid)
  local record = read_schedule(report, jid, key.template(jid))
  check_schedule(report, jid, record, key.place(record.queue or '', 'recur'))
end

local function check_cron(report, id)
  local record = read_schedule(report, id, key.schedule(id))
  if not record.cron or not record.queue then
    complain(report, 'record of schedule %s is damaged', id)
  end
  check_schedule(report, id, record, key.schedules())
end

local function check_group(report, group)
  if call('SISMEMBER', key.failures(), group) == 0 then
    complain(report, 'failure group %s is not listed', group)
  end
end

local function check_tag(report, tag)
  local members, counted = call('ZCARD', key.tag(tag)), Record.number(call('ZSCORE', key.tags(), tag) or '0')
  if members ~= counted then
    complain(report, 'tag %s is on %s jobs, counted %s', tag, members, counted)
  end
end

-- Both sets have the same entries, and the bytes are counted right, as far as one call sees all.
local function check_results(report)
  local number = call('ZCARD', key.results())
  if number ~= call('ZCOUNT', key.results_until(), '(0', '+inf') then
    complain(report, 'of what is kept it is not known until when')
  end
  if number < Arguments.most then
    local flat, bytes = call('ZRANGEBYSCORE', key.results_until(), '(0', '+inf', 'WITHSCORES'), 0
    for n = 2, #flat, 2 do
      bytes = bytes + Retention.bytes_of(flat[n])
    end
    local counted = Retention.total_bytes()
    if bytes ~= counted then
      complain(report, 'what is kept takes %s bytes, counted %s', bytes, counted)
    end
  end
end

-- (Copies of the core without such books kept results as well: those at least expire.)
local function check_kept(kind)
  return function(report, jid)
    local entry = kind .. jid
    local name = scope.prefix .. entry
    if call('PTTL', name) == -1 and not call('ZSCORE', key.results(), entry) then
      complain(report, '%s does not expire, and is not among what is kept', entry)
    end
  end
end

-- What is known of a canceled job is listed, and goes by itself. (Another core may have put the job again
-- without a word to the record.)
local function check_canceled(report, jid)
  local name = key.canceled_job(jid)
  if call('HEXISTS', name, 'was') == 0 then
    complain(report, 'record of canceled job %s is damaged', jid)
  end
  if not call('ZSCORE', key.canceled(), jid) then
    complain(report, 'canceled job %s is not listed', jid)
  end
  if call('TTL', name) < 0 or call('TTL', key.canceled()) == -1 then
    complain(report, 'the record of canceled job %s or the list of them is kept for ever', jid)
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
  'cascading',
  'idle',
  'wake',
  'journal',
  'workflows',
  'results_until',
  'canceled',
  'nonempty',
  'paused_reasons',
  'schedules',
  'paused_schedules',
  'declared_schedules',
  'schedule_marks',
  'ticker',
  'entity_types',
}) do
  ALONE[name] = true
end
ALONE.results = check_results
ALONE.deliveries = AuditLinks.check_deliveries
local FAMILY = {
  { start = 'j:', check = check_job_key },
  { start = 'r:', check = check_template },
  { start = 'schedule:', check = check_cron },
  { start = 'unique:', check = AuditLinks.check_unique },
  { start = 'needs:', check = AuditLinks.check_needs },
  { start = 'result:', check = check_kept('result:') },
  { start = 'offspring:', check = check_kept('offspring:') },
  { start = 'spawned:', check = AuditLinks.check_spawned },
  { start = 'canceled:', check = check_canceled },
  { start = 'limit:', check = AuditLimits.check },
  { start = 'workflow:', check = AuditWorkflows.check },
  { start = 'staged:', check = AuditWorkflows.check_staged },
  { start = 'payloads:', check = AuditEntities.check_payloads },
  { start = 'taken:', check = AuditEntities.check_taken },
  { start = 'fresh:', check = AuditEntities.check_list },
  { start = 'retrying:', check = AuditEntities.check_list },
  { start = 'dead:', check = AuditEntities.check_list },
  { start = 'dead_ids:', check = AuditEntities.check_list },
  { start = 'dead_entity:', check = AuditEntities.check_dead_entity },
  { start = 'dead_payloads:', check = AuditEntities.check_dead_payloads },
  { start = 'f:', check = check_group },
  { start = 't:', check = check_tag },
}
for _, start in ipairs({
  's:',
  'm:',
  'reply:',
  'worker:',
  'orders:',
  'stacks:',
  'detached:',
  'idle:',
  'wake:',
  'timer:',
  'awaiting:',
  'ended:',
}) do
  FAMILY[#FAMILY + 1] = { start = start }
end

local function check_key(report, name)
  local alone = ALONE[name]
  if alone then
    if alone ~= true then
      alone(report)
    end
    return
  end
  for _, family in ipairs(FAMILY) do
    if sub(name, 1, #family.start) == family.start then
      if family.check then
        family.check(report, sub(name, #family.start + 1))
      end
      return
    end
  end
  complain(report, 'key %s%s is none of ours', scope.prefix, name)
end

-- What a member of a queue's place, of a worker's list and so on must be.
local function member_of_place(place)
  return function(report, jid, queue)
    local state, its_queue = Hash.values(key.job(jid), 'state', 'queue')
    if not state then
      complain(report, 'job %s is in %s of %s, but has no record', jid, place, queue)
    elseif AuditJobs.place[state] ~= (place == 'aside' and 'work' or place) or its_queue ~= queue then
      complain(report, 'job %s is in %s of %s, but %s in %s', jid, place, queue, state, its_queue or 'none')
    end
  end
end

-- A limit that is looked at later.
local function member_of_openings() end

local function member_of_aside(report, jid, queue)
  member_of_place('aside')(report, jid, queue)
  AuditLimits.member(report, jid, queue)
end

local function member_of_recur(report, jid, queue)
  if call('HGET', key.template(jid), 'queue') ~= queue then
    complain(report, 'recurring job %s in queue %s has no template there', jid, queue)
  end
end

local function member_of_ticks(report, id, queue)
  if call('HGET', key.schedule(id), 'queue') ~= queue then
    complain(report, 'schedule %s has put a job into queue %s, but is none of that', id, queue)
  end
end

local function member_of_schedules(report, id)
  if call('EXISTS', key.schedule(id)) == 0 then
    complain(report, 'schedule %s has a next tick, but no record', id)
  end
end

local function member_of_paused(report, id)
  if call('EXISTS', key.schedule(id), key.template(id)) == 0 then
    complain(report, 'schedule %s is paused, but has no record', id)
  end
end

local function member_of_worker(report, jid, worker)
  local state, its_worker = Hash.values(key.job(jid), 'state', 'worker')
  if state ~= 'running' or its_worker ~= worker then
    complain(report, 'job %s is on the list of worker %s, which does not run it', jid, worker)
  end
end

-- Lists whose owner is not listed (any more) are checked when their key is met, as far as
-- one step goes; those of listed owners in the second part.
local function check_place_key(report, name)
  local queue, place = match(name, '^(.*)%-(%a+)$')
  if not queue or call('ZSCORE', key.queues(), queue) then
    return
  end
  local special = {
    recur = member_of_recur,
    ticks = member_of_ticks,
    aside = member_of_aside,
    openings = member_of_openings,
  }
  local check = special[place] or member_of_place(place)
  for _, jid in ipairs(SortedSet.head(key.place(queue, place))) do
    check(report, jid, queue)
  end
end

local function check_held_key(report, name)
  local worker = match(name, '^(.*):jobs$')
  if worker and not call('ZSCORE', key.workers(), worker) then
    for _, jid in ipairs(SortedSet.head(key.held(worker))) do
      member_of_worker(report, jid, worker)
    end
  end
end

FAMILY[#FAMILY + 1] = { start = 'q:', check = check_place_key }
FAMILY[#FAMILY + 1] = { start = 'w:', check = check_held_key }

local function member_of_group(report, jid, group)
  local state, failure = Hash.values(key.job(jid), 'state', 'failure')
  local filed = state == 'failed' and Record.read('failure', failure, {}).group
  if Record.is_bad('failure', failure) then
    return -- which is said where its record is checked
  elseif not filed or (filed ~= group and group ~= 'other') then
    complain(report, 'job %s is in failure group %s, but has not failed in it', jid, group)
  end
end

local function member_of_tag(report, jid, tag)
  local tags = call('HGET', key.job(jid), 'tags')
  for _, name in ipairs(Record.read('tags', tags, {})) do
    if name == tag then
      return
    end
  end
  complain(report, 'tag %s lists job %s, which does not carry it', tag, jid)
end

-- An entry of what is kept and not expired has its key. (Clocks may differ a little.)
local function member_of_results(report, entry)
  local score = call('ZSCORE', key.results_until(), entry)
  if not score then
    complain(report, '%s is kept without a time to end', entry)
  elseif Retention.outlives(score, scope.now + 61) and call('EXISTS', scope.prefix .. entry) == 0 then
    complain(report, '%s is among what is kept, but is gone', entry)
  end
end

local function member_of_completed(report, jid)
  if call('HGET', key.job(jid), 'state') ~= 'complete' then
    complain(report, 'job %s is among the completed, but is not complete', jid)
  end
end

-- Every list of jids, in an order that two steps see alike. `what` is said of a list that must not be empty.
local function lists()
  local all = {}
  local function add(name, check, owner, what, read)
    all[#all + 1] = { name = name, check = check, owner = owner, what = what, read = read or 'ZRANGE' }
  end
  add(key.completed(), member_of_completed)
  add(key.results(), member_of_results)
  add(key.schedules(), member_of_schedules)
  add(key.paused_schedules(), member_of_paused)
  local queues = call('ZRANGE', key.queues(), 0, -1)
  table.sort(queues)
  for _, queue in ipairs(queues) do
    for _, place in ipairs({ 'work', 'locks', 'scheduled', 'depends' }) do
      add(key.place(queue, place), member_of_place(place), queue)
    end
    add(key.place(queue, 'recur'), member_of_recur, queue)
    add(key.place(queue, 'ticks'), member_of_ticks, queue)
    add(key.place(queue, 'aside'), member_of_aside, queue)
  end
  for _, worker in ipairs(call('ZRANGE', key.workers(), 0, -1)) do
    add(key.held(worker), member_of_worker, worker)
  end
  AuditEntities.lists(add)
  local groups = call('SMEMBERS', key.failures())
  table.sort(groups)
  for _, group in ipairs(groups) do
    add(key.group(group), member_of_group, group, 'failure group', 'LRANGE')
  end
  for _, tag in ipairs(call('ZRANGE', key.tags(), 0, -1)) do
    add(key.tag(tag), member_of_tag, tag, 'tag')
  end
  return all
end

-- Checks up to `count` members from the list and the offset on. -> the next cursor
local function check_lists(report, at, offset, count)
  local all = lists()
  while at <= #all and count > 0 do
    local list = all[at]
    local members = call(list.read, list.name, offset, offset + count - 1)
    if offset == 0 and #members == 0 and list.what then
      complain(report, '%s %s is listed but empty', list.what, list.owner)
    end
    for _, jid in ipairs(members) do
      list.check(report, jid, list.owner)
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
      Errors.argument(
        'audit',
        'cursor must be 0 or what the last step answered, not ' .. Errors.value(cursor)
      )
    end
    report.cursor = check_keys(report, scan, count)
  end
  return cjson.encode(report)
end
