"""What the commands print."""

from __future__ import annotations

import io
import json
from typing import Any

from django.core.management import call_command


def run(*arguments: str, **options: Any) -> str:
    """Return what a command prints."""
    output = io.StringIO()
    call_command(*arguments, stdout=output, stderr=output, **options)
    return output.getvalue()


def data(*arguments: str) -> Any:
    """Return what a command prints as JSON."""
    return json.loads(run(*arguments, "--json"))


def doctor_findings(*arguments: str) -> list[tuple[str, str, str]]:
    """Return what qless_doctor finds; check that its exit code fits."""
    output = io.StringIO()
    code = 0
    try:
        call_command("qless_doctor", "--json", *arguments, stdout=output)
    except SystemExit as end:
        code = int(str(end.code))
    found = [tuple(each.values()) for each in json.loads(output.getvalue())]
    assert code == any(level == "PROBLEM" for level, _, _ in found)
    return found  # type: ignore[return-value]


def doctor_words(*arguments: str) -> str:
    """Return what qless_doctor finds, as text."""
    return "\n".join(" ".join(each) for each in doctor_findings(*arguments))
