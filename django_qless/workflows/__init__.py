"""Jobs that depend on each other, put together; and what a running job spawns."""
