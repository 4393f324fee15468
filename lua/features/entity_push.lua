-- Pushing payloads: onto an entity that is in its queue, or one that is put there with them.

local rcall = redis.call

local OPTIONS = { priority = true, retries = true, tags = true, context = true, batch = true, known = true }

-- A queue has entities of one job type, which may have had other names. When it is empty another may take it over.
local function check_type(call, queue, klass, known)
  local other = rcall('HGET', call.keys.entity_types, queue.name)
  if not other or other == klass then
    return
  end
  local places = { queue.work, queue.parked, queue.scheduled, queue.locks, Keys.dead(call, queue.name) }
  if rcall('EXISTS', unpack(places)) == 0 then
    return
  end
  for _, name in ipairs(known) do
    if name == other then
      return
    end
  end
  Errors.refuse(
    call,
    'STATE',
    'Queue %s has the entities of %s, and cannot have those of %s: give each job type its own queue',
    Errors.name(queue.name),
    Errors.name(other),
    Errors.name(klass)
  )
end

-- What the jobs of the call have in common.
local function read_options(call, args, first)
  local given = Arguments.options(call, args, first, OPTIONS)
  if given.context then
    Arguments.object(call, 'context', given.context)
  end
  return {
    known = given.known and Arguments.names(call, 'known', given.known) or {},
    priority = Arguments.number(call, 'priority', given.priority or '0'),
    retries = Arguments.whole(call, 'retries', given.retries or '5', 0),
    tag_list = given.tags and Arguments.tag_list(call, given.tags) or nil,
    context = given.context,
    batch = Times.text(Arguments.whole(call, 'batch', given.batch or '1', 1)),
  }
end

-- The default score: by the server's time, in the order of the call.
local function score_of(call, text, n)
  local score = text == '' and call.now + n * 1e-6 or Arguments.number(call, 'score', text)
  return string.format('%.17g', score)
end

-- A first payload of an entity: what the call says of its job.
local function read_item(call, args, at, queue)
  local item = { entity = Entities.id(call, args[at]), data = args[at + 1], flat = {} }
  item.jid = Entities.jid(queue, item.entity)
  Arguments.object(call, 'data', item.data)
  if not string.find(item.data, '^{.+}$') then
    Errors.argument(call, 'data must be an object with members, not ' .. Errors.value(item.data))
  end
  item.due = args[at + 4] ~= '' and Arguments.number(call, 'due', args[at + 4]) or call.now
  return item
end

-- entity data payload score due, `count` times from args[i] on -> the entities in order, each with its payloads
local function read_items(call, args, i, count, queue)
  local items, order = {}, {}
  for n = 0, count - 1 do
    local at = i + 5 * n
    local item = items[args[at]]
    if not item then
      item = read_item(call, args, at, queue)
      items[item.entity], order[#order + 1] = item, item
    end
    Arguments.json(call, 'payload', args[at + 2], Payloads.each)
    local flat = item.flat
    flat[#flat + 1], flat[#flat + 2] = score_of(call, args[at + 3], n), args[at + 2]
  end
  return order
end

-- The job of an entity that is in no place, as a put has it. `more` is what the job has beside entity, jid, data and due.
function EntityPush.job(call, queue, item, more)
  local late = item.due > call.now
  return {
    pushed = true,
    queue = queue,
    jid = item.jid,
    key = Keys.job(call, item.jid),
    klass = more.klass,
    data = item.data,
    delay = late and item.due - call.now or 0,
    at = late and item.due or nil,
    priority = more.priority,
    retries = more.retries,
    tag_list = more.tag_list,
    context = more.context,
    letters = 'e',
    entity = item.entity,
    home = queue,
    batch = more.batch,
  }
end

local QUEUED = { waiting = true, stalled = true, running = true, scheduled = true }

-- push worker queue klass n (entity data payload score due)*n [pairs] -> how many payloads are new
function EntityPush.push(call, args, i)
  local worker, name = Arguments.given(call, 'worker', args[i]), Arguments.queue(call, args[i + 1])
  local klass, queue = Arguments.name(call, 'klass', args[i + 2]), Keys.queue(call, name)
  local count = Arguments.whole(call, 'number of payloads', args[i + 3], 1)
  Arguments.bounded(call, count)
  if i + 3 + 5 * count > #args then
    Errors.argument(call, 'Fewer payloads than announced')
  end
  local more = read_options(call, args, i + 4 + 5 * count)
  more.klass = klass
  local items, jobs = read_items(call, args, i + 4, count, name), {}
  check_type(call, queue, klass, more.known)
  for _, item in ipairs(items) do
    if Entities.is_in_the_way(call, item.jid) then
      Errors.refuse(call, 'STATE', 'Job %s is in the way: it carries no entity', Errors.name(item.jid))
    elseif not QUEUED[rcall('HGET', Keys.job(call, item.jid), 'state')] then
      jobs[#jobs + 1] = EntityPush.job(call, name, item, more)
    end
  end
  local plan, new = Put.check(call, { jobs = jobs }), 0
  rcall('HSET', call.keys.entity_types, name, klass)
  for _, item in ipairs(items) do
    new = new + Payloads.join(Keys.payloads(call, item.jid), item.flat)
  end
  Put.carry_out(call, plan, worker)
  Queue.register(call, queue)
  return new
end
