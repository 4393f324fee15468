"""Commands that pages name, also within a sentence or a table, exist as they are named."""

from __future__ import annotations

import argparse
import re
from functools import cache
from pathlib import Path

import pytest
from django.core.management import load_command_class

from tests.docs.pages import DOCS, ROOT

PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md"))]
COMMANDS = {
    path.stem for path in (ROOT / "django_qless/management/commands").glob("qless_*.py")
}
#: What is called alike and is no command.
FIXTURES = {"qless_server"}
METRIC = re.compile(
    r"qless_(up|queues|workers|jobs|"
    r"(jobs|lag|failed|failure|snapshot|queue|worker|server|job|outbox)_\w+)\b"
)


@cache
def parsers(command: str) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of a command under "", and those of its subcommands."""
    parser = load_command_class("django_qless", command).create_parser("", command)
    found: dict[str, argparse.ArgumentParser] = {"": parser}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def problem(text: str) -> str:
    """Return what is wrong with a command line in a text, "" if nothing is."""
    command, *words = text.split()
    if command.removesuffix("()") in FIXTURES or METRIC.match(command):
        return ""
    if command not in COMMANDS:
        return f"{text}: there is no such command"
    known = parsers(command)
    verb = ""
    if len(known) > 1 and words and re.fullmatch(r"[a-z]+", words[0]):
        verb = words[0]
        if verb not in known:
            return f"{text}: there is no such subcommand"
    options = {
        option for action in known[verb]._actions for option in action.option_strings
    }
    for name in re.findall(r"(?<![\w-])--?[a-z][\w-]*", " ".join(words)):
        if name not in options:
            return f"{text}: there is no {name}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    spans = re.findall(
        r"`(?:python )?(?:manage\.py )?(qless_[^`|\n]*)`", page.read_text()
    )
    lines = re.findall(
        r"^(?:python )?manage\.py (qless_[^#|>&\n]*)", page.read_text(), re.M
    )
    wrong = [found for text in (*spans, *lines) if (found := problem(text))]
    assert wrong == []
