-- Pushing payloads: onto an entity that is in its queue, or one that is put there with them.

local OPTIONS = { priority = true, retries = true, tags = true, context = true, batch = true, known = true }

-- A queue has entities of one job type, which may have had other names. When it is empty another may take it over.
-- -> what it is now, if it may be this one
local function check_type(queue, klass, known)
  local other = call('HGET', key.entity_types(), queue)
  if not other or other == klass then
    return other
  end
  local place = key.place
  if
    call('EXISTS', place(queue, 'work'), place(queue, 'scheduled'), place(queue, 'locks'), key.dead(queue))
    == 0
  then
    return
  end
  for _, name in ipairs(known) do
    if name == other then
      return
    end
  end
  Errors.raise(
    'STATE',
    'push(): Queue %s has the entities of %s, and cannot have those of %s: give each such job type a queue of its own',
    Errors.name(queue),
    Errors.name(other),
    Errors.name(klass)
  )
end

-- What the jobs of the call have in common.
local function read_options(args, first)
  local given = Arguments.options('push', args, first, OPTIONS)
  local known = given.known and Arguments.names('push', 'known', given.known) or {}
  if given.context then
    Arguments.object('push', 'context', given.context)
  end
  return {
    priority = Arguments.number('push', 'priority', given.priority or '0'),
    retries = Arguments.whole('push', 'retries', given.retries or '5', 0),
    tags = given.tags and Arguments.tag_list('push', given.tags) or nil,
    context = given.context,
    batch = Arguments.whole('push', 'batch', given.batch or '1', 1),
    known = known,
  }
end

-- The default score: by the server's time, in the order of the call.
local function score_of(text, n)
  return text == '' and string.format('%.17g', scope.now + n * 1e-6)
    or string.format('%.17g', Arguments.number('push', 'score', text))
end

-- entity data payload score due, `count` times from args[i] on -> by entity what is pushed; the entities in
-- order
local function read_items(args, i, count, queue)
  local items, order = {}, {}
  for n = 0, count - 1 do
    local at = i + 5 * n
    local entity = Entity.id('push', args[at])
    local item = items[entity]
    if not item then
      item = { entity = entity, jid = Entity.jid(queue, entity), data = args[at + 1], flat = {} }
      items[entity], order[#order + 1] = item, item
      Arguments.object('push', 'data', item.data)
      if not string.find(item.data, '^{.+}$') then
        Errors.argument('push', 'data must be an object with members, not ' .. Errors.value(item.data))
      end
      item.due = args[at + 4] ~= '' and Arguments.number('push', 'due', args[at + 4]) or nil
    end
    Arguments.json('push', 'payload', args[at + 2], Payloads.each)
    local flat = item.flat
    flat[#flat + 1], flat[#flat + 2] = score_of(args[at + 3], n), args[at + 2]
  end
  return order
end

local QUEUED = { waiting = true, stalled = true, running = true, scheduled = true }

-- Looks at the entity's job: whether it is there, and is one.
local function look(item)
  local state, entity = Hash.values(key.job(item.jid), 'state', 'entity')
  if state and not entity then
    Errors.raise('STATE', 'push(): Job ' .. Errors.name(item.jid) .. ' is in the way: it carries no entity')
  end
  item.state = state
end

-- Puts the job of an entity that is in no place into its queue; `more` are fields of the job.
function EntityPush.enqueue(more, entity, jid, due, worker)
  local late = due and due > scope.now and due
  local job = {
    queue = more.queue,
    jid = jid,
    klass = more.klass,
    data = more.data,
    delay = late and late - scope.now or 0,
    at = late or nil,
    priority = more.priority,
    retries = more.retries,
    tags = more.tags,
    context = more.context,
    rare = true,
    entity = entity,
    batch = more.batch,
  }
  Put.look(job)
  PutStore.store(job, worker, Tracking.is_tracked(jid))
  Minutes.count(more.queue, 'put', 1)
  Entity.listed(jid, more.queue, late or scope.now, more.retries, more.retries)
end

-- push worker queue klass n (entity data payload score due)*n [pairs] -> how many payloads are new
function EntityPush.push(args, i)
  local worker = Arguments.asking('push', args[i])
  local queue, klass = Arguments.queue('push', args[i + 1]), Arguments.name('push', 'klass', args[i + 2])
  local count = Arguments.whole('push', 'number of payloads', args[i + 3], 1)
  Arguments.bounded('push', count)
  if i + 3 + 5 * count > #args then
    Errors.argument('push', 'Fewer payloads than announced')
  end
  local more = read_options(args, i + 4 + 5 * count)
  more.queue, more.klass = queue, klass
  local items = read_items(args, i + 4, count, queue)
  local known_type = check_type(queue, klass, more.known)
  for _, item in ipairs(items) do
    look(item)
  end
  if known_type ~= klass then
    call('HSET', key.entity_types(), queue, klass)
  end
  local new = 0
  for _, item in ipairs(items) do
    new = new + Payloads.join(key.payloads(item.jid), item.flat)
    if item.state == 'failed' then -- by a core that knows no entities
      Revive.revive({ item.jid }, 1)
    elseif not QUEUED[item.state] then
      more.data = item.data
      EntityPush.enqueue(more, item.entity, item.jid, item.due, worker)
    end
  end
  Places.register(queue)
  return new
end
