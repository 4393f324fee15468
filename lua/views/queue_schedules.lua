-- stub
function QueueSchedules.count(_, names)
  local n = {}
  for i in ipairs(names) do
    n[i] = 0
  end
  return n
end
