"""JSON output of the management commands, with the type of each value."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from django.core.management import call_command

from django_qless.testing import run_jobs
from tests.jobs_app.jobs import add, failing


def lines() -> Iterator[str]:
    """Return a line for each value of each command's output. Needs an empty server."""
    add.delay(1)
    failing.delay("group", "message")
    run_jobs(raise_failures=False)
    waiting = add.using(delay=3600, tags=["t"]).delay(2)
    add.recur(1, every=3600)
    for words in (
        ("qless_status",),
        ("qless_doctor",),
        ("qless_queue", "list"),
        ("qless_jobs", "list"),
        ("qless_jobs", "show", waiting.jid),
        ("qless_recurring", "list"),
        ("qless_config", "list"),
        ("qless_config", "get", "heartbeat"),
    ):
        shown = " ".join(words).replace(waiting.jid, "JID")
        yield from sorted(set(types(f"{shown} --json", output(*words))))


def output(*words: str) -> Any:
    """Return the JSON that a command prints."""
    stdout = io.StringIO()
    # The doctor exits with 1 if it reports a problem.
    with suppress(SystemExit):
        call_command(*words, "--json", stdout=stdout)
    return json.loads(stdout.getvalue())


def types(path: str, value: Any) -> Iterator[str]:
    """Return lines with the type of each value."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from types(f"{path} .{name}", each)
    elif isinstance(value, list):
        yield f"{path} []"
        for each in value:
            yield from types(f"{path} []", each)
    else:
        # 1.0 and 1 are the same number in JSON.
        name = "number" if type(value) in (int, float) else type(value).__name__
        yield f"{path}: {name}"
