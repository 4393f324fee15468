-- stub
Limits.fields = { 'limit_key', 'holds', 'parked' }
Limits.options = { 'limit_key' }
function Limits.next_look() end
function Limits.look() end
function Limits.repair() end
function Limits.room_of_queue()
  return math.huge
end
function Limits.count_of_queue() end
function Limits.park() end
