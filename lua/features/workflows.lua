-- stub
Workflows.fields = { 'workflow' }
Workflows.options = { 'workflow' }
function Workflows.repair() end
