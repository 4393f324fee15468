-- stub
function LimitSettings.is_number()
  return false
end
function LimitSettings.check() end
function LimitSettings.changed() end
