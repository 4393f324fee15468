"""Jobs that the worker of a scene runs, and one that recurs."""

from __future__ import annotations

import time

from django_qless import current_job, job
from django_qless.admin import listing

#: A page of a search looks at a thousand jobs, so that one that goes on can be seen.
listing.SEARCH_SECONDS = 0

LONGEST = 60
"""Seconds that a job holds its worker, unless it is taken away."""


@job("live")
def holds() -> None:
    """Say that it runs, and run until it is taken away; it can be left at any time."""
    running = current_job()
    assert running is not None
    running.progress(0.5, "holds")
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        time.sleep(0.05)


@job("live", every=86_400)
def tidies() -> None:
    """Recur: what the code declares of it is there to be changed, and to be reset."""
