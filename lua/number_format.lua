-- Numbers and times as texts; the text of the present time is made once per call. (Printing a number costs as much as a small
-- Redis command.)

local format, floor = string.format, math.floor

-- A whole number: much cheaper than with a fraction.
function NumberFormat.whole(number)
  if number > -2 ^ 53 and number < 2 ^ 53 then
    return format('%d', number)
  end
  return format('%.0f', number)
end

-- The time is scope.now. In the server's words it is scope.second and scope.fraction ('.123456'), if it told them.

-- The present time, at least as exact as redis.call would print it.
function NumberFormat.now()
  local text = scope.now_text
  if not text then
    text = scope.fraction and scope.second .. scope.fraction or format('%.17g', scope.now)
    scope.now_text = text
  end
  return text
end

-- The same as job records keep it.
function NumberFormat.time()
  local text = scope.time_text
  if not text then
    text = scope.fraction and NumberFormat.now() or format('%.20f', scope.now)
    scope.time_text = text
  end
  return text
end

function NumberFormat.second()
  scope.second = scope.second or NumberFormat.whole(floor(scope.now))
  return scope.second
end

-- A time cut to thousandths of a second. (What is lost in a product is less than what is added.)
function NumberFormat.thousandths(seconds)
  if seconds == floor(seconds) then
    return NumberFormat.whole(seconds)
  end
  return format('%.3f', floor(seconds * 1000 + 0.001) / 1000)
end

-- The present time in thousandths of a second.
function NumberFormat.thousandth()
  local text = scope.thousandth
  if not text then
    text = scope.fraction and scope.second .. string.sub(scope.fraction, 1, 4)
      or NumberFormat.thousandths(scope.now)
    scope.thousandth = text
  end
  return text
end

-- The present time in whole milliseconds.
function NumberFormat.milliseconds()
  if scope.fraction then
    return scope.second .. string.sub(scope.fraction, 2, 4)
  end
  return NumberFormat.whole(floor(scope.now * 1000 + 0.001))
end

-- The time so many seconds from now.
function NumberFormat.later(seconds)
  if scope.fraction and seconds == floor(seconds) then
    return NumberFormat.whole(floor(scope.now) + seconds) .. scope.fraction
  end
  return format('%.17g', scope.now + seconds)
end
