"""Enqueueing: plans, requests, dispatch on commit, dependencies and context."""
