-- Texts that are made once: of the present time, and of names that come again and again.
-- (Printing a number costs as much as a small Redis command, and so does looking at a text.)
local scope = Qless.scope

local Texts = {}
Qless.Texts = Texts

local format, floor = string.format, math.floor

local KEPT = 500 -- texts of one kind

-- Remembers from call to call what `make` makes of a name; of what else it depends on, nothing.
function Texts.remembered(make)
  local made, count = {}, 0
  return function(name)
    local text = made[name]
    if text == nil then
      if count == KEPT then
        made, count = {}, 0
      end
      text = make(name)
      made[name], count = text, count + 1
    end
    return text
  end
end

-- A whole number: much cheaper than with a fraction.
function Texts.whole(number)
  if number > -2 ^ 53 and number < 2 ^ 53 then
    return format('%d', number)
  end
  return format('%.0f', number)
end

-- The present time: its whole seconds and their fraction as the server told them, if it did.
local second, fraction, now, time, thousandth

-- A new call: the time is scope.now, in the server's words `seconds` and `rest` ('.123456').
function Texts.begin(seconds, rest)
  second, fraction, now, time, thousandth = seconds, rest, nil, nil, nil
end

-- The present time, at least as exact as redis.call would print it.
function Texts.now()
  if not now then
    now = fraction and second .. fraction or format('%.17g', scope.now)
  end
  return now
end

-- The same as job records keep it.
function Texts.time()
  if not time then
    time = fraction and Texts.now() .. '00000000000000' or format('%.20f', scope.now)
  end
  return time
end

function Texts.second()
  if not second then
    second = Texts.whole(floor(scope.now))
  end
  return second
end

-- A time cut to thousandths of a second. (What is lost in a product is less than what is added.)
function Texts.thousandths(seconds)
  if seconds == floor(seconds) then
    return Texts.whole(seconds)
  end
  return format('%.3f', floor(seconds * 1000 + 0.001) / 1000)
end

-- The present time in thousandths of a second.
function Texts.thousandth()
  if not thousandth then
    thousandth = fraction and second .. string.sub(fraction, 1, 4) or Texts.thousandths(scope.now)
  end
  return thousandth
end

-- The time so many seconds from now.
function Texts.later(seconds)
  if fraction and seconds == floor(seconds) then
    return Texts.whole(floor(scope.now) + seconds) .. fraction
  end
  return format('%.17g', scope.now + seconds)
end
