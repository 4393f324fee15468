-- stub
function Recurring.spawn_due() end
