-- A canceled job as get shows it.

local rcall = redis.call

-- The record that is kept of a canceled job, or nil.
function CanceledView.read(call, jid)
  local record = Pieces.hash(Keys.canceled_job(call, jid))
  if not record.canceled then
    return nil
  end
  record.jid = jid
  return record
end

-- The texts of its history's entries.
function CanceledView.history(call, jid)
  return rcall('LRANGE', Keys.canceled_history(call, jid), 0, -1)
end

-- The object that get shows, as JSON, or nil; its state is `canceled`.
function CanceledView.show(call, jid)
  local record = CanceledView.read(call, jid)
  if not record then
    return nil
  end
  local shown = cjson.encode({
    jid = jid,
    klass = record.klass or '',
    state = 'canceled',
    queue = record.queue or '',
    worker = '',
    tracked = Job.is_tracked(call, jid),
    priority = Times.finite(record.priority, 0),
    expires = 0,
    retries = Times.finite(record.retries, 0),
    remaining = math.floor(Times.finite(record.remaining, 0)),
    data = record.data or 'null',
    tags = Json.shown(record.tags),
    history = History.shown(call, CanceledView.history(call, jid)),
    failure = Json.shown(record.failure),
    spawned_from_jid = record.spawned_from_jid or false,
    dependents = {},
    dependencies = {},
    token = '',
    crashes = Times.finite(record.crashes, 0),
    unique = Unique.shown(record),
    workflow = record.workflow,
    on_failure = record.on_failure,
    canceled = {
      when = tonumber(record.canceled),
      was = record.state,
      why = record.why,
      by = record.by or '',
      worker = record.state == 'running' and record.worker or '',
      left_out = tonumber(record.left_out) or 0,
    },
  })
  return Json.with(shown, 'context', Json.text(record.context), 'progress', 'null')
end

-- A row of a list, as a brief has it, but for the last places; or false.
function CanceledView.row(call, jid)
  local row = rcall(
    'HMGET',
    Keys.canceled_job(call, jid),
    'klass',
    'queue',
    'state',
    'priority',
    'retries',
    'remaining',
    'tags',
    'worker',
    'canceled',
    'expires',
    'spawned_from_jid',
    'workflow'
  )
  row[1], row[2] = row[1] or '', row[2] or ''
  return row[3] and row
end
