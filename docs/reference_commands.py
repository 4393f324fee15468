"""The pages of the commands: their options, from their parsers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from django.core.management import load_command_class
from django.core.management.base import BaseCommand
from reference_parts import code, sentence, table

COMMANDS = Path(__file__).parents[1] / "django_qless/management/commands"


def worker() -> Iterator[str]:
    parser = parser_of("qless_worker")
    for group in parser._action_groups:
        if rows := list(parser_rows(parser, group)):
            yield f"## {sentence(group.title or '').rstrip('.')}"
            yield ""
            yield from table(("option", "meaning", "default"), rows)
    yield "## Pools, reservers, signals, exit codes"
    yield ""
    yield "As `manage.py qless_worker --help` says it:"
    yield ""
    yield "```text"
    yield str(parser.epilog).rstrip()
    yield "```"
    yield ""


def commands() -> Iterator[str]:
    for path in sorted(COMMANDS.glob("qless_*.py")):
        if path.stem == "qless_worker":
            continue
        parser = parser_of(path.stem)
        yield f"## `{path.stem}`"
        yield ""
        yield str(parser.description or "")
        yield ""
        if rows := list(parser_rows(parser)):
            yield from table(("option", "meaning", "default"), rows)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                helps = {each.dest: each.help for each in action._choices_actions}
                others = list(action.choices.items())
                for verb, below in others:
                    # Another name for one that has a section.
                    if verb not in helps:
                        continue
                    verbs = [name for name, each in others if each is below]
                    yield f"### {', '.join(f'`{path.stem} {each}`' for each in verbs)}"
                    yield ""
                    yield sentence(str(below.description or helps.get(verb) or ""))
                    yield ""
                    if rows := list(parser_rows(below)):
                        yield from table(("option", "meaning", "default"), rows)


def is_shared(action: argparse.Action) -> bool:
    """Return whether this is an option that all commands of operators have."""
    if action.option_strings == ["--json"]:
        return True
    return action.option_strings == ["--alias"] and action.default == "default"


def parser_rows(
    parser: argparse.ArgumentParser, group: argparse._ArgumentGroup | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yield the options of a command, or of a group of it, that not all commands have."""
    usual = {
        name
        for action in BaseCommand().create_parser("", "")._actions
        for name in action.option_strings
    } | {"--force-color"}
    for action in parser._actions if group is None else group._group_actions:
        if set(action.option_strings) & usual or is_shared(action):
            continue
        if (
            isinstance(action, argparse._SubParsersAction)
            or action.help == "==SUPPRESS=="
        ):
            continue
        names = ", ".join(action.option_strings) or action.metavar or action.dest
        if not action.option_strings:
            names = {"+": f"{names} …", "*": f"[{names} …]", "?": f"[{names}]"}.get(
                str(action.nargs), names
            )
        value = "" if action.nargs == 0 or not action.option_strings else action.metavar
        shown = (
            f"{names} {value or action.dest.upper()}"
            if action.option_strings and (action.nargs != 0)
            else str(names)
        )
        help_ = (action.help or "") % {**vars(action), "prog": parser.prog}
        # Those that are explained below are not named twice.
        below = "see below" in (action.help or "")
        choices = "" if below else ", ".join(map(code, action.choices or ()))
        yield (
            code(shown),
            ": ".join(
                filter(None, [re.sub(r" \(default: [\w.-]+\)", "", help_), choices])
            ),
            ""
            if action.nargs == 0
            or action.default in (None, False, [], "", argparse.SUPPRESS)
            else code(action.default),
        )


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of one of our commands."""
    return load_command_class("django_qless", name).create_parser("manage.py", name)
