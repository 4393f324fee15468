-- stub
function Ticks.leave() end
