"""Settings, commands, models, checks, URLs, templates and the like."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management import load_command_class
from django.db.migrations.loader import MigrationLoader
from django.dispatch import Signal
from django.urls import get_resolver

import django_qless
from django_qless.conf import setting_checks, validation
from django_qless.core.options import OF_A_QUEUE, OPTIONS
from django_qless.core.retry import TABLE

ROOT = Path(django_qless.__file__).parent
APP = "django_qless"


def lines() -> Iterator[str]:
    """Return a line for each of them."""
    yield from settings()
    for path in sorted((ROOT / "management" / "commands").glob("qless_*.py")):
        yield from command(path.stem)
    yield f"python -m django_qless.health: {import_module('django_qless.health').USAGE}"
    yield from models()
    yield from checks()
    yield from loggers()
    yield from groups()
    yield from signals()
    yield from (f"URL {name}" for name in urls())
    yield from templates()
    yield from (f"pytest fixture {name}" for name in fixtures())
    for code, (_, error) in sorted(TABLE.items()):
        yield f"error code {code}: {error.__name__}"


def settings() -> Iterator[str]:
    """Return what may stand in QLESS."""
    yield from (f"QLESS {name}" for name in sorted(validation.KNOWN))
    yield from (f"QLESS QUEUES {name}" for name in sorted(setting_checks.QUEUE_OPTIONS))
    numbers = {option.name for option in OPTIONS} - {"application"}
    yield from (f"QLESS CONFIG {name}" for name in sorted(numbers))
    yield from (f"QLESS CONFIG <queue>-{option.name}" for option in OF_A_QUEUE)


def command(name: str) -> Iterator[str]:
    """Return the arguments of a management command, and of its subcommands."""
    made = load_command_class(APP, name).create_parser("manage.py", name)
    yield from arguments(f"manage.py {name}", made)


# What every command of Django's has.
EVERY = {"help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color",
         "force_color", "skip_checks"}  # fmt: skip


def arguments(title: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Return the arguments of a parser."""
    yield title
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from arguments(f"{title} {word}", inner)
        elif action.dest not in EVERY:
            word = "|".join(action.option_strings) or action.dest
            choices = (
                f" of {sorted(map(str, action.choices))}" if action.choices else ""
            )
            yield f"{title} {word} [{action.nargs}]{choices} = {action.default!r}"


def models() -> Iterator[str]:
    """Return models with their permissions, and migrations."""
    for model in apps.get_app_config(APP).get_models():
        names = [name for name, _ in model._meta.permissions]
        yield f"model {model._meta.label} {model._meta.default_permissions} {names}"
    loader = MigrationLoader(None)
    yield from (
        f"migration {name}"
        for app, name in sorted(loader.disk_migrations)
        if app == APP
    )


def sources() -> dict[str, str]:
    """Return the text of all our Python."""
    paths = sorted(ROOT.glob("**/*.py"))
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def checks() -> Iterator[str]:
    """Return the numbers of system checks."""
    text = "\n".join(sources().values())
    numbers = set(re.findall(r"""["'.]([EW]0\d\d)\b""", text))
    yield from (f"check {APP}.{number}" for number in sorted(numbers))


def loggers() -> Iterator[str]:
    """Return the names of loggers."""
    text = "\n".join(sources().values())
    names = set(re.findall(r'getLogger\("([^"]+)"\)', text))
    yield from (f"logger {name}" for name in sorted(names))


def groups() -> Iterator[str]:
    """Return the failure groups that Python gives, apart from names of exceptions."""
    text = "\n".join(sources().values())
    named = re.findall(r'^[A-Z_]+ = "([a-z]+(?:-[a-z]+)+)"$', text, re.MULTILINE)
    yield from (f"failure group {name}" for name in sorted(set(named)))


def signals() -> Iterator[str]:
    """Return the names of signals."""
    found = vars(import_module("django_qless.signals"))
    yield from (f"signal {n}" for n, each in found.items() if isinstance(each, Signal))


def urls() -> list[str]:
    """Return the names of the admin's URLs, with the arguments that they take."""
    found = get_resolver().namespace_dict["admin"][1].reverse_dict
    return sorted(
        f"admin:{name} {sorted(params)}"
        for name in found
        if isinstance(name, str) and name.startswith(f"{APP}_")
        for _, params in [found.getlist(name)[0][0][0]]
    )


def templates() -> Iterator[str]:
    """Return our templates with their blocks, and the names of tags and filters."""
    for path in sorted((ROOT / "templates").glob("**/*.html")):
        blocks = re.findall(r"{% block (\w+)", path.read_text())
        if blocks:
            yield f"template {path.relative_to(ROOT / 'templates')} {blocks}"
    for path in sorted((ROOT / "templatetags").glob("[a-z]*.py")):
        library: Any = import_module(f"django_qless.templatetags.{path.stem}").register
        yield f"tags of {path.stem}: {sorted([*library.tags, *library.filters])}"


def fixtures() -> list[str]:
    """Return the fixtures of the pytest plugin."""
    text = (ROOT / "testing" / "plugin.py").read_text()
    return sorted(re.findall(r"@pytest.fixture[^\n]*\ndef (\w+)", text))
