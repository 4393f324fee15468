"""Schedules: declared in code or dynamic, and the jobs of their ticks."""
