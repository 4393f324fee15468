-- stub
Spawned.fields = { 'parent' }
