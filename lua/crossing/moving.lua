-- Moving jobs into another namespace: here a job is taken out, and a note is left where it went; all that makes it is
-- an entry for there, where it is put.

-- The note is kept so many seconds, and of so many jobs.
local KEPT, MOST = 7 * 86400, 100000
local AT_ONCE = 20 -- notes too many that one call takes away beyond those that it makes

-- Entries of a job's history that go with it, and their bytes.
local ENTRIES, BYTES = 50, 32 * 1024

-- Bytes of jobs in one entry, beyond which another one is begun.
local ENTRY_BYTES = 256 * 1024

local function refuse(jid, why)
  Errors.raise('STATE', 'send.each(): Job %s %s', Errors.name(jid), why)
end

-- Why it has to stay, with the remedy.
local STAYS = {
  running = 'is running: move it when its run has ended',
  depends = 'waits for other jobs: move it when it is ready, or cancel it and enqueue it there',
}

-- Why a job with this record has to stay, with the remedy; nil: nothing here has to do with it.
local function obstacle(jid, record)
  if STAYS[record.state] then
    return STAYS[record.state]
  elseif not Record.is_state(record.state) then
    return 'has a damaged record: cancel it'
  elseif call('EXISTS', key.dependents(jid)) == 1 then
    return 'has dependents: move it when they are gone'
  elseif record.elsewhere then
    return 'stands for a job of another namespace: move that'
  elseif record.watched then
    return 'is awaited by jobs of other namespaces: let it end'
  elseif record.entity then
    return 'belongs to an entity, which stays: push its payloads there'
  elseif record.workflow then
    return 'belongs to a workflow, which stays: let it run, or cancel it'
  elseif Spawned.has_unfinished(jid) or Spawned.is_awaited(jid, record.spawners) then
    return 'has spawned jobs, or was spawned, and they have not ended: let them end'
  elseif call('EXISTS', key.needs(jid)) == 1 then
    return 'uses results of jobs that it depended on: let it run here'
  end
end

-- A job that may leave. -> its record
local function leaving(jid)
  local record = Job.read(jid, true)
  if not record then
    Errors.no_job('send.each', jid)
  end
  local why = obstacle(jid, record)
  if why then
    refuse(jid, why)
  end
  return record
end

-- The unique key as options of the put there: who arrives takes it. (One for a period is in no field: it stays.)
local function add_unique(add, field, target)
  if field then
    local text, where = Unique.parts(field)
    add('unique', text)
    add('conflict', 'take')
    add('unique_until', string.find(field, '^[sS]') and 'start' or 'end')
    add('claim', where and 'moved ' .. where .. '\n' .. target)
  end
end

-- The options of the put there.
local function options_of(jid, record, batch)
  local options = {}
  local function add(name, value)
    if value then
      options[#options + 1] = name
      options[#options + 1] = value
    end
  end
  local place = key.place(record.queue, 'scheduled')
  local due = tonumber(batch.delay) == 0
    and (record.scheduled or record.state == 'scheduled' and call('ZSCORE', place, jid))
  add('at', due)
  add('priority', Record.text('priority', record.priority))
  add('retries', Record.text('retries', record.retries))
  local tags = Record.read('tags', record.tags, {})
  add('tags', #tags > 0 and cjson.encode(tags))
  add('context', Record.text('context', record.context))
  if record.state ~= 'failed' and record.state ~= 'complete' then
    add('expires_at', Record.text('deadline', record.deadline))
  end
  if not (batch.as_it_is and record.state == 'failed') then
    add_unique(add, record.unique, batch.target)
  end
  add('limit_key', record.limit_key)
  add('ordered', record.ordered)
  add('fair_by', record.fair_by)
  return options
end

-- What goes with it beyond that.
local function more_of(jid, record, batch)
  if record.history then
    History.modernise(jid, record.history)
  end
  local texts = History.texts(jid, ENTRIES, BYTES)
  local more = {
    history = Record.entry_texts(texts),
    failure = Record.text('failure', record.failure),
    failed_from = record.failed_from,
    tracked = Tracking.is_tracked(jid),
  }
  if record.state ~= 'failed' and record.state ~= 'complete' then
    more.remaining, more.crashes =
      Record.read('remaining', record.remaining), Record.read('crashes', record.crashes)
  end
  if batch.as_it_is then
    Rerouted.add(more, jid, record, batch.target)
  end
  return more
end

-- A complete job is in other books than one that is canceled.
local function take_out(jid, record)
  if record.state == 'complete' then
    call('ZREM', key.completed(), jid)
    call('ZREM', key.releasing(), jid)
  end
  if record.unique then
    Unique.leave(jid, record.unique)
  end
  Job.remove(jid, record)
  call('ZREM', key.tracked(), jid)
end

-- How many notes there are beyond those that are kept.
function Moving.too_many()
  return math.max(0, call('ZCARD', key.moved()) - MOST)
end

local function tidy(made)
  local name = key.moved()
  local old = call('ZRANGEBYSCORE', name, '-inf', scope.now - KEPT, 'LIMIT', 0, made + AT_ONCE)
  local surplus = math.min(Moving.too_many(), made + AT_ONCE)
  if surplus > #old then
    old = call('ZRANGE', name, 0, surplus - 1)
  end
  for _, jid in ipairs(old) do
    call('DEL', key.moved_to(jid))
  end
  SortedSet.remove(name, old)
end

-- The arguments of the put there.
local function put_of(jid, record, batch)
  local put = { batch.queue, jid, record.klass or '', record.data or '', batch.delay }
  local options = options_of(jid, record, batch)
  put[6] = NumberFormat.whole(#options / 2)
  for n = 1, #options do
    put[#put + 1] = options[n]
  end
  return put
end

-- Raises what would be said there, if it would be refused.
local function check(jid, record, batch)
  local put = put_of(jid, record, batch)
  PutOptions.parse('send.each', put, 1, 7, #put)
end

-- Adds to the batch for the entry what makes a job: the put there, and what is said beyond that.
function Moving.add(batch, jid, record, more)
  local put = put_of(jid, record, batch)
  put[1], put[2] = jid, batch.queue
  batch.more[#batch.more + 1] = cjson.encode(more)
  batch.bytes = batch.bytes + #batch.more[#batch.more]
  for n = 1, #put do
    batch.puts[#batch.puts + 1] = put[n]
    batch.bytes = batch.bytes + #put[n]
  end
end

-- Takes it out, for the batch.
local function send(jid, record, batch)
  Moving.add(batch, jid, record, more_of(jid, record, batch))
  take_out(jid, record)
  call('SET', key.moved_to(jid), batch.target, 'EX', KEPT)
  call('ZADD', key.moved(), NumberFormat.now(), jid)
  if batch.bytes > ENTRY_BYTES then
    Moving.close(batch)
  end
end

-- Takes a job out, for the batch.
function Moving.send_one(jid, batch)
  local record = leaving(jid)
  check(jid, record, batch)
  send(jid, record, batch)
end

-- A job whose run ends well is to go on there, with all of its retries, as it would here. -> its record; or nil, and why
-- it cannot. Writes nothing.
function Moving.after_run(jid, batch)
  local record = Job.read(jid, true)
  record.state = 'waiting'
  record.remaining, record.failure, record.deadline, record.scheduled = nil, nil, nil, nil
  local why = obstacle(jid, record)
  if why then
    return nil, why
  end
  local fine, problem = pcall(check, jid, record, batch)
  if fine then
    return record
  elseif Errors.is_refusal(problem) then
    return nil, 'cannot be put there: ' .. problem.text
  end
  error(problem, 0)
end

-- Its run has ended, and no worker holds it: takes it out.
function Moving.go_on(jid, record, batch)
  send(jid, record, batch)
  Moving.close(batch)
end

-- With a delay of '' the jobs stay what they are: see Rerouted.
function Moving.batch(target, queue, delay)
  local batch = { target = target, queue = queue, delay = delay, more = {}, puts = {}, bytes = 0 }
  if delay == '' then
    batch.as_it_is, batch.delay = true, '0'
  end
  return batch
end

-- Writes the entry.
function Moving.close(batch)
  local number = #batch.more
  if number > 0 then
    local args = { NumberFormat.whole(number) }
    for _, list in ipairs({ batch.more, batch.puts }) do
      for n = 1, #list do
        args[#args + 1] = list[n]
      end
    end
    Crossing.write(batch.target, 'receive', args)
    if call('EXISTS', key.moved()) == 1 then
      tidy(number)
    end
    batch.more, batch.puts, batch.bytes = {}, {}, 0
  end
end

-- A job is there as it was elsewhere.
local function restore(jid, queue, more)
  if more.remaining then
    call('HSET', key.job(jid), 'remaining', more.remaining)
  end
  for _, name in ipairs({ 'failure', 'failed_from', 'crashes' }) do
    if more[name] then
      call('HSET', key.job(jid), name, more[name])
    end
  end
  if more.tracked then
    call('ZADD', key.tracked(), NumberFormat.now(), jid)
  end
  History.restore(jid, more.history or {})
  local unique = call('HGET', key.job(jid), 'unique')
  if unique then
    Unique.arrived(jid, unique)
  end
  Rerouted.restore(jid, queue, more)
  if more.home then
    Watchers.add(jid, more.home)
    StandIns.take_results(jid, more.needs, more.results)
  end
  if call('DEL', key.moved_to(jid)) == 1 then
    call('ZREM', key.moved(), jid)
  end
end

-- receive number (more)*number (as put.many)... -> as put.many; called by a delivery
function Moving.receive(args, i)
  local number, mores = Arguments.whole('receive', 'number', args[i], 1), {}
  for n = 1, number do
    mores[n] = Arguments.json('receive', 'more', args[i + n])
  end
  scope.arriving = true
  local plan = PutMany.plan('receive', args, i + number + 1, { lenient = true })
  if #plan.jobs ~= number then
    Errors.argument('receive', 'as many jobs are wanted as there is more of: ' .. number)
  end
  local reply = PutMany.carry_out(plan, '')
  for n, job in ipairs(plan.jobs) do
    restore(job.jid, job.queue, mores[n])
  end
  return reply
end

-- moved jid... -> the names of the namespaces to which they were moved from here, or of those of the jobs for which they
-- stand; '' for others
function Moving.moved(args, i)
  local jids, found = Tags.rest(args, i), {}
  Arguments.bounded('moved', #jids)
  for n, jid in ipairs(jids) do
    found[n] = call('HGET', key.job(jid), 'elsewhere') or call('GET', key.moved_to(jid)) or ''
  end
  return found
end
