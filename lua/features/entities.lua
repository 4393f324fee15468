-- stub
Entities.fields = { 'entity', 'home', 'batch' }
