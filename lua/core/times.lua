-- Numbers and times as texts. (redis.call would print a number with 17 digits each time.)

local format, byte, sub, floor = string.format, string.byte, string.sub, math.floor

-- Most numbers of a record have one digit.
local SMALL, DIGITS = {}, {}
for digit = 0, 9 do
  local text = format('%d', digit)
  SMALL[digit], DIGITS[text] = text, digit
end

-- A number as redis.call would print it.
function Times.text(number)
  return SMALL[number] or format('%.17g', number)
end

-- A whole number as text. (Printing a fraction costs as much as a small Redis command.)
function Times.whole(number)
  if number > -2 ^ 53 and number < 2 ^ 53 then
    return format('%d', number)
  end
  return format('%.0f', number)
end

-- The number of a time as text. (In two parts: the server's times have more digits than are read quickly at once.)
function Times.number(text)
  if #text == 17 and byte(text, 11) == 46 then
    return tonumber(sub(text, 1, 10)) + tonumber(sub(text, 12)) / 1e6
  end
  return tonumber(text)
end

-- The number of a stored text, or `default` if it is none. (JSON knows neither nan nor inf.)
function Times.finite(text, default)
  local number = DIGITS[text] or tonumber(text or nil)
  return number and number - number == 0 and number or default
end

-- A time cut to thousandths of a second. (What is lost in a product is less than what is added.)
function Times.thousandths(seconds)
  if seconds == floor(seconds) then
    return Times.whole(seconds)
  end
  return format('%.3f', floor(seconds * 1000 + 0.001) / 1000)
end
