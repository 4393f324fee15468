-- Deliveries: calls that a database's outbox hands over, each of which is carried out once.
--
-- A process may die between such a call and the commit that takes it out of its outbox. Then it is handed over
-- again, however much later; the reply that is kept for repeats, and the job's record, may be gone by then. So a
-- delivery leaves a mark, which stays until its source has said that the entry is gone.

local DAY = 86400
local LONGEST = 7 * DAY -- seconds that a mark stays if its source never says so
local GRACE = 60 -- and after it has said so: who has read the entry before may still hand it over
local MOST = 100000 -- marks; beyond that those go that have the least time left
local AT_ONCE = 20 -- marks that a call takes away because their time is over
local MOST_FORGOTTEN = 100

-- The commands that an outbox may hand over.
local CARRIED = {
  put = true,
  push = true,
  ['put.many'] = true,
  ['workflow.put'] = true,
  ['workflow.stage'] = true,
  ['workflow.release'] = true,
  ['workflow.carry'] = true,
  ['schedule.set'] = true,
  ['schedule.remove'] = true,
}

local function mark_id(command, id)
  Arguments.name(command, 'delivery', id)
  Arguments.plain(command, 'delivery', id)
  return id
end

local function ids(command, args, first, last)
  local found = {}
  for n = first, last do
    found[#found + 1] = mark_id(command, args[n])
  end
  return found
end

-- Those that are marked stay for the time of grace yet. -> how many these are
local function forget(marks)
  local name, left = key.deliveries(), NumberFormat.later(GRACE)
  local some = {}
  for _, id in ipairs(marks) do
    if call('ZSCORE', name, id) then
      some[#some + 1] = id
    end
  end
  SortedSet.add(name, left, some)
  return #some
end

-- Takes away some of those whose time is over, and what is too much.
local function tidy()
  local name = key.deliveries()
  local over = call('ZRANGEBYSCORE', name, '-inf', scope.now, 'LIMIT', 0, AT_ONCE)
  SortedSet.remove(name, over)
  local many = Deliveries.too_many()
  if many > 0 then
    call('ZREMRANGEBYRANK', name, 0, many - 1)
  end
end

-- The call itself, as if it had been made without an outbox.
local function carry_out(args, at)
  local command = args[at]
  if not CARRIED[command] then
    Errors.argument('deliver', 'a command that enqueues is wanted, not ' .. Errors.value(command))
  end
  local inner = { command, args[2], args[3] }
  for n = at + 1, #args do
    inner[#inner + 1] = args[n]
  end
  local known = Commands.find(command)
  return modules[known.module][known.what](inner, 4)
end

-- deliver id count (id whose entry is gone)*count command args... -> 1 and its reply; 0 if it was delivered before
function Deliveries.deliver(args, i)
  local id = mark_id('deliver', args[i])
  local count = Arguments.whole('deliver', 'count', args[i + 1], 0)
  if count > MOST_FORGOTTEN then
    Errors.argument('deliver', 'at most ' .. MOST_FORGOTTEN .. ' ids at a time, not ' .. count)
  end
  local gone = ids('deliver', args, i + 2, i + 1 + count)
  local answer = { 0 }
  if not call('ZSCORE', key.deliveries(), id) then
    answer = { 1, carry_out(args, i + 2 + count) }
    call('ZADD', key.deliveries(), NumberFormat.later(LONGEST), id)
  end
  forget(gone)
  tidy()
  return answer
end

-- deliver.forget id... : their entries are gone -> how many of them were marked
function Deliveries.forget(args, i)
  local gone = ids('deliver.forget', args, i, #args)
  if #gone > MOST_FORGOTTEN then
    Errors.argument('deliver.forget', 'at most ' .. MOST_FORGOTTEN .. ' ids at a time, not ' .. #gone)
  end
  local marked = forget(gone)
  tidy()
  return marked
end

-- The mark that stays for longest if that is for longer than any is made for. (A clock that was set back by
-- hours makes marks stay for that much longer. There is at least one.)
function Deliveries.never_ending()
  local last = call('ZRANGE', key.deliveries(), -1, -1, 'WITHSCORES')
  return tonumber(last[2]) >= scope.now + LONGEST + DAY and last[1] or nil
end

-- How many marks there are beyond those that are kept.
function Deliveries.too_many()
  return math.max(0, call('ZCARD', key.deliveries()) - MOST)
end
