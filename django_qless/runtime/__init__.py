"""Execution of one job with Django around it, in a worker or in a test."""
