-- Requests that are carried out once, however late they are repeated: once:<id>. Their replies are kept for a week.

local rcall = redis.call

local GRACE = 60 -- seconds; who has read a row of an outbox before it was deleted may still send its request

-- once.forget id... : nothing repeats these requests any more, but for the time of grace -> how many were kept
function Once.forget(call, args, i)
  Arguments.given(call, 'id', args[i])
  Arguments.bounded(call, #args - i + 1)
  local kept = 0
  for n = i, #args do
    kept = kept + rcall('EXPIRE', Keys.once(call, args[n]), GRACE)
  end
  return kept
end
