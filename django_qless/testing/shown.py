"""Jobs in words, for the messages of assertions. Asks no database and no server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django_qless.exceptions import Fail
from django_qless.registry import Binding, JobType
from django_qless.values import revive

# A message is for people: of very many jobs the first ones.
MOST_JOBS = 20
MOST_LETTERS = 200


def call(name: str, job_type: JobType | None, data: str) -> str:
    """Return a job as the call that it is: `shop.jobs.welcome(1, template='x')`."""
    try:
        envelope = json.loads(data)
    except ValueError:
        return f"{name} with {_short(data)}"
    if job_type is not None and job_type.binding is Binding.CLASS:
        return f"{name}({value(envelope)})"
    if not isinstance(envelope, Mapping):
        return f"{name} with {_short(data)}"
    words = [value(each) for each in envelope.get("args", ())]
    words += [
        f"{key}={value(each)}" for key, each in envelope.get("kwargs", {}).items()
    ]
    row = f"[{value(envelope['row'])}]" if "row" in envelope else ""
    return f"{name}{row}({', '.join(words)})"


def value(given: Any) -> str:
    """Return an argument as it travels, as Python would write what it stands for."""
    if isinstance(given, list):
        return f"[{', '.join(map(value, given))}]"
    if not isinstance(given, dict):
        return _short(repr(given))
    if "$model" in given:
        return f"<{given['$model']} {value(given.get('pk'))}>"
    if any(key.startswith("$") for key in given):
        try:
            return _short(repr(revive(given)))
        except (Fail, ValueError, TypeError, KeyError):
            return _short(repr(given))
    pairs = (f"{key!r}: {value(each)}" for key, each in given.items())
    return f"{{{', '.join(pairs)}}}"


def options(given: Iterable[tuple[str, Any]]) -> str:
    """Return what is out of the common among these, ` , delay=60`."""
    return "".join(f", {name}={each!r}" for name, each in given if each)


def listing(jobs: Iterable[object], nothing: str) -> str:
    """Return one line for each job, or what stands for none."""
    lines = [f"    {job!r}" for job in jobs]
    if len(lines) > MOST_JOBS:
        left = len(lines) - MOST_JOBS
        lines = [*lines[:MOST_JOBS], f"    … and {left} more"]
    return "\n".join(lines) or nothing


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"
