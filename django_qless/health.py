"""Liveness and readiness probes of a worker, from the health file that it writes.

    python -m django_qless.health PATH [--ready] [--max-age SECONDS]

prints one line, and exits with 0 for yes, 1 for no. It needs neither Django nor the
project nor the server, so that a probe costs next to nothing. The file comes from
`qless_worker --health-file PATH`.

Alive: the worker's loop turns, whatever the server does. Ready: it takes jobs, and the
server has answered it lately. A worker whose server is down is alive, but not ready: a
restart would not help.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False  # typing would double what this program imports
if TYPE_CHECKING:
    from typing import Any, TypeGuard

MAX_AGE = 30.0
"""Seconds. The loop turns, and the server is called, at least every 10 s; a server that
is slow to answer may keep the loop for some seconds more."""

READY = "running"
"""The state of a worker that takes jobs."""

USAGE = "usage: python -m django_qless.health PATH [--ready] [--max-age SECONDS]"


class Unwell(Exception):
    """The worker is not alive, or not ready; the text says why."""


def examine(path: str, *, ready: bool = False, max_age: float = MAX_AGE) -> str:
    """Return a line about the worker that writes this file; raise Unwell."""
    content = read(path)
    age = age_of(content["turned"])
    name, state = content["name"], content["state"]
    if not is_there(content["pid"]):
        raise Unwell(f"dead: process {content['pid']} of worker {name} is gone")
    if age > max_age:
        raise Unwell(
            f"dead: the loop of worker {name} last turned {age_text(age, max_age)}"
        )
    if not ready:
        return f"alive: worker {name}, {state}, its loop turned {age:.1f} s ago"
    if state != READY:
        raise Unwell(f"not ready: worker {name} is {state}")
    if content["good"] is None:
        raise Unwell(f"not ready: worker {name} has not reached the server yet")
    silence = age_of(content["good"])
    if silence > max_age:
        raise Unwell(
            f"not ready: the server last answered worker {name} "
            f"{age_text(silence, max_age)}"
        )
    return f"ready: worker {name}, the server answered {silence:.1f} s ago"


def read(path: str) -> dict[str, Any]:
    """Return the content of a health file; raise Unwell if it is missing or invalid."""
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read())
    except FileNotFoundError:
        raise Unwell(
            f"dead: there is no file {path}: the worker has not begun, has ended, or "
            "writes another --health-file"
        ) from None
    except OSError as error:
        raise Unwell(f"unknown: {path} cannot be read: {error.strerror}") from None
    except ValueError:
        content = None
    if not is_health(content):
        raise Unwell(f"unknown: {path} is not what a worker writes as --health-file")
    return content


def is_health(content: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether this has all the members, of the right types."""
    return (
        isinstance(content, dict)
        and isinstance(content.get("name"), str)
        and isinstance(content.get("state"), str)
        and type(content.get("pid")) is int
        and type(content.get("turned")) in (int, float)
        and (
            content.get("good", 0) is None or type(content.get("good")) in (int, float)
        )
    )


def age_of(moment: float) -> float:
    """Return the seconds since a moment of the monotonic clock, which a host shares.

    A moment in the future is of an earlier boot, and infinitely old.
    """
    age = time.monotonic() - moment
    return age if age >= 0 else float("inf")


def age_text(age: float, max_age: float) -> str:
    """Return the text for an age that is too great."""
    if age == float("inf"):
        return "before this machine was started"
    return f"{age:.1f} s ago, more than {max_age:g} s"


def is_there(pid: int) -> bool:
    """Return whether a process has this id."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def main(arguments: list[str]) -> int:
    """Run as a program; return the exit code."""
    try:
        path, ready, max_age = parsed(arguments)
    except ValueError as error:
        print(f"{USAGE}\n{error}", file=sys.stderr)
        return 2
    try:
        print(examine(path, ready=ready, max_age=max_age))
    except Unwell as why:
        print(why)
        return 1
    return 0


def parsed(arguments: list[str]) -> tuple[str, bool, float]:
    """Return path, ready and maximum age; raise ValueError.

    (To import argparse would take longer than all the rest.)
    """
    left, paths, ready, max_age = list(arguments), [], False, MAX_AGE
    while left:
        word = left.pop(0)
        name, has_value, value = word.partition("=")
        if word == "--ready":
            ready = True
        elif name == "--max-age":
            if not has_value and not left:
                raise ValueError("--max-age needs a number of seconds")
            max_age = seconds(value if has_value else left.pop(0))
        elif word.startswith("-"):
            raise ValueError(f"there is no option {word}")
        else:
            paths.append(word)
    if len(paths) != 1:
        raise ValueError("name one file: the --health-file of the worker")
    return paths[0], ready, max_age


def seconds(text: str) -> float:
    """Return a number of seconds above 0; raise ValueError."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError(f"--max-age {text}: give a number of seconds above 0")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
