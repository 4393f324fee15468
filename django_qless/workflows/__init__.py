"""Workflows, batches, and the jobs that a running job spawns."""
