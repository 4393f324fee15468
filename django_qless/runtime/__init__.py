"""Execution of one job with Django around it, in workers and tests."""
