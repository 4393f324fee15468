-- Numbers and times as texts. (redis.call would print a number with 17 digits each time.)

local format, floor = string.format, math.floor

local SMALL = {}
for digit = 0, 9 do
  SMALL[digit] = format('%d', digit)
end

-- A number as redis.call would print it.
function Times.text(number)
  return SMALL[number] or format('%.17g', number)
end

-- A time cut to thousandths of a second. (What is lost in a product is less than what is added.)
function Times.thousandths(seconds)
  if seconds == floor(seconds) then
    return format('%.0f', seconds)
  end
  return format('%.3f', floor(seconds * 1000 + 0.001) / 1000)
end
