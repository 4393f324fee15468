-- The verbs of settle: what each does to a job that a worker held, and its arguments. Nearly all jobs are completed, and
-- for all of them this one is written to be fast; the others are in other_verbs.lua.

-- What the completed jobs of a call have in common is written once, at the end.
function SettleVerbs.finish(completed)
  if #completed.jids == 0 then
    return
  end
  for queue, list in pairs(completed.queues) do
    SortedSet.remove(key.place(queue, 'locks'), list)
    Wake.freed(queue)
  end
  for worker, list in pairs(completed.workers) do
    SortedSet.remove(key.held(worker), list)
  end
  SortedSet.add(key.completed(), NumberFormat.now(), completed.jids)
  JobEnd.completed(completed.jids, completed.rare) -- which reads the records, so before they may go
  Expiry.after(#completed.jids)
end

local function append(lists, name, jid)
  local list = lists[name]
  if list then
    list[#list + 1] = jid
  else
    lists[name] = { jid }
  end
end

-- How each verb checks its `n` arguments from args[a] on (before anything is written), and
-- what it then does. -> code, text if the settlement is refused
SettleVerbs.complete = {
  check = function(args, a, n)
    if n == 0 then
      return
    end
    if args[a] ~= '' then
      Arguments.json('settle', 'result', args[a], Arguments.text_bytes)
      args[a + 1] = Arguments.whole('settle', 'result_ttl', n > 1 and args[a + 1] or nil, 1)
    end
    if n > 2 then
      Arguments.json('settle', 'data', args[a + 2])
    end
  end,
  act = function(jid, token, held, args, a, n, completed, tracked)
    local worker, queue, time, retries, rare, waited, put = Lock.completed(jid, token)
    if not worker then
      return queue, time -- code and text
    end
    held = held or Samples.held(waited) or 0
    local is_written = History.done_with(jid, held, put, queue, worker)
    local popped = Record.read('time', time, scope.now)
    if math.floor(popped) == math.floor(scope.now) then
      scope.seen = worker
    end
    Samples.add('run', queue, scope.now - Samples.started(queue, popped, waited, held))
    local returned = n > 1 and Outcome.keep_result(jid, token, args[a], args[a + 1])
    if tracked[jid] then
      Events.tracked('completed', jid)
    end
    Events.completed(jid, queue)
    local name = key.job(jid)
    Outcome.write_complete(
      name,
      Record.text('retries', retries, '0'),
      n > 2 and args[a + 2],
      returned,
      is_written
    )
    if rare and rare ~= '1' then -- of the others JobEnd knows whether there is anything to forget
      Outcome.forget_marks(name)
    end
    append(completed.queues, queue, jid)
    append(completed.workers, worker, jid)
    completed.jids[#completed.jids + 1] = jid
    if rare == '1' then
      completed.rare[#completed.rare + 1] = jid
    end
  end,
}

-- The verb of this name, or nil.
function SettleVerbs.named(name)
  return name == 'complete' and SettleVerbs.complete or OtherVerbs.by_name[name]
end
