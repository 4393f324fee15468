"""The public API is unchanged: names, commands, JSON output.

    python -m tests.public_api.test_snapshot          updates the snapshot

A line of the snapshot changes only on purpose: others depend on it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real_servers import Server

Part = Callable[[Server], Iterator[str]]


def python(server: Server) -> Iterator[str]:
    from tests.public_api import python

    return python.lines()


def project(server: Server) -> Iterator[str]:
    from tests.public_api import project

    return project.lines()


def json_output(server: Server) -> Iterator[str]:
    from tests.public_api import json_output

    with on(server):
        yield from json_output.lines()


PARTS: dict[str, Part] = {
    part.__name__: part for part in (python, project, json_output)
}


@contextmanager
def on(server: Server) -> Iterator[None]:
    """Have the project use this server."""
    from django.test import override_settings

    with override_settings(QLESS={"default": {"LOCATION": server.url}}):
        yield


def path(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.txt")


@pytest.mark.parametrize("name", PARTS)
def test_public_api_is_unchanged(server: Server, name: str) -> None:
    before, now = path(name).read_text().splitlines(), list(PARTS[name](server))
    changes = list(difflib.unified_diff(before, now, lineterm="", n=0))[2:]
    assert not changes, "\n".join(
        [
            "The public API has changed:",
            *changes,
            f"Update it with python -m {__name__}",
        ]
    )


def main() -> None:
    """Update the snapshot."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django

    django.setup()
    for name, part in PARTS.items():
        with Server("valkey") as server:
            path(name).write_text("\n".join(part(server)) + "\n")


if __name__ == "__main__":
    main()
