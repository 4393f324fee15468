"""Writes docs/reference/ from the tables and docstrings of the code.

python docs/build_reference.py            write the pages
python docs/build_reference.py --check    exit with 1 if one is not as it would be written
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from reference_parts import code, comments, field_docs, prose, table

HERE = Path(__file__).parent
ROOT = HERE.parent

HEAD = """\
<!-- Written by docs/build_reference.py from the code: change it there. -->

# {title}

{introduction}
"""

#: The page of each name, and the function that yields what is below its introduction.
PAGES: dict[str, tuple[str, str, Callable[[], Iterator[str]]]] = {}


def page(
    name: str, title: str, introduction: str
) -> Callable[[Callable[[], Iterator[str]]], Callable[[], Iterator[str]]]:
    """Return a decorator that makes a function the source of a page."""

    def add(source: Callable[[], Iterator[str]]) -> Callable[[], Iterator[str]]:
        PAGES[name] = (title, textwrap.dedent(introduction).strip(), source)
        return source

    return add


@page(
    "job-options",
    "Options of a job",
    """
    `@job(…)` takes them in the code, `.using(…)` for one call. `@task(…)` of Django's
    Tasks takes those marked so where Django lets them through, and `OPTIONS` of a Tasks
    backend makes some the default of all its Tasks. [Jobs](../guides/jobs.md) shows them in
    use.
    """,
)
def job_options() -> Iterator[str]:
    from django_qless.job_types.options import DEFAULTS, TABLE, In, Options
    from django_qless.schedules.timetable import Timetable

    docs = field_docs(Options)
    places = {
        In.JOB: "`@job`",
        In.USING: "`.using`",
        In.TASK: "`@task`",
        In.BACKEND: "`OPTIONS`",
    }
    rows = [
        (
            code(name),
            ", ".join(words for place, words in places.items() if place in row.given),
            code(repr(getattr(DEFAULTS, name))),
            docs[name][1],
        )
        for name, row in sorted(TABLE.items())
    ]
    yield from table(("option", "where", "default", "meaning"), rows)
    yield "## Of `@job` alone: its name, and when it recurs"
    yield ""
    rest = {
        "name": "The name that workers find the job by, instead of that of its module and function.",
        "aliases": "Names that it had: jobs that were enqueued under them are found.",
        "cron": "Five fields, or `@daily` and the like.",
        "rows": "On a method of rows: the name of a manager's method, or a function of the "
        "model that returns a queryset; each tick enqueues a job for each row.",
    } | {
        name: text
        for name, (_, text) in field_docs(Timetable).items()
        if text and not name.startswith("_")
    }
    yield from table(
        ("option", "meaning"), [(code(name), text) for name, text in rest.items()]
    )


#: Keys that are read elsewhere.
ELSEWHERE = {
    "TEST": "Where tests have their jobs: a dict like that of an alias, or False for none. "
    "Default: a private server for each process of tests.",
}


@page(
    "settings",
    "Settings",
    """
    The setting `QLESS` is a dict of aliases, like `DATABASES`: each says where its jobs are
    and how they are kept. `manage.py check` names what is wrong with it.
    """,
)
def settings() -> Iterator[str]:
    from django_qless.conf import schema, setting_checks
    from django_qless.core.options import OPTIONS

    yield "## Keys of an alias"
    yield ""
    fields = field_docs(schema.Alias)
    docs = {row.name: fields[name][1] for name, row in schema.ATTRIBUTES.items()}
    rows = []
    for row in schema.KEYS:
        text = docs[row.name] if row.name in docs else ELSEWHERE[row.name]
        rows.append((code(f'"{row.name}"'), text, code(f"django_qless.{row.number}")))
    yield from table(("key", "meaning", "its check"), rows)
    yield (
        "A setting beside it, `QLESS_MODULES`, lists the names of the modules of apps in which "
        "workers look for jobs; the default is `jobs` and `tasks`. Another one, "
        "`QLESS_MONITORING_TOKEN`, is the token, or a list of tokens, of "
        "[the URLs for machines](../guides/monitoring.md)."
    )
    yield ""
    yield "## Options of a queue, in `QUEUES`"
    yield ""
    queue_rows = [
        (code(name), meaning) for name, meaning in setting_checks.QUEUE_OPTIONS.items()
    ]
    yield from table(("option", "meaning"), queue_rows)
    yield "## Options of the core, in `CONFIG`"
    yield ""
    yield (
        "An operator's `qless_config set` or change in the admin wins over the setting."
    )
    yield ""
    core_rows = [
        (code(each.name), code(each.default), each.meaning) for each in OPTIONS
    ]
    yield from table(("option", "default", "meaning"), core_rows)


def parser_rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, str]]:
    """Yield the options of a command that are not every command's."""
    from django.core.management.base import BaseCommand

    usual = {
        name
        for action in BaseCommand().create_parser("", "")._actions
        for name in action.option_strings
    } | {"--force-color"}
    for action in parser._actions:
        if set(action.option_strings) & usual:
            continue
        if (
            isinstance(action, argparse._SubParsersAction)
            or action.help == "==SUPPRESS=="
        ):
            continue
        names = ", ".join(action.option_strings) or action.metavar or action.dest
        value = "" if action.nargs == 0 or not action.option_strings else action.metavar
        shown = (
            f"{names} {value or action.dest.upper()}"
            if action.option_strings and (action.nargs != 0)
            else str(names)
        )
        values = {**vars(action), "prog": parser.prog}
        choices = ", ".join(map(code, action.choices or ()))
        yield (
            code(shown),
            ": ".join(filter(None, [(action.help or "") % values, choices])),
            ""
            if action.nargs == 0
            or action.default in (None, False, [], "", argparse.SUPPRESS)
            else code(action.default),
        )


def sentence(text: str) -> str:
    """Return a line of help as a sentence."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of one of our commands."""
    from django.core.management import load_command_class

    return load_command_class("django_qless", name).create_parser("manage.py", name)


@page(
    "worker",
    "`manage.py qless_worker`",
    """
    Takes jobs from queues and runs them. [The worker](../guides/worker.md) says which pool
    and how many processes to choose.
    """,
)
def worker() -> Iterator[str]:
    parser = parser_of("qless_worker")
    yield from table(("option", "meaning", "default"), parser_rows(parser))
    yield "## Pools, reservers, signals, exit codes"
    yield ""
    yield "As `manage.py qless_worker --help` says it:"
    yield ""
    yield "```text"
    yield str(parser.epilog).rstrip()
    yield "```"
    yield ""


@page(
    "commands",
    "Commands",
    """
    What `manage.py` can do for operators. All but `qless_embedded` take `--alias`, and most
    `--json`. [The worker](worker.md) has a page.
    """,
)
def commands() -> Iterator[str]:
    for path in sorted((ROOT / "django_qless/management/commands").glob("qless_*.py")):
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
                for verb, below in action.choices.items():
                    yield f"### `{path.stem} {verb}`"
                    yield ""
                    yield sentence(str(below.description or helps.get(verb) or ""))
                    yield ""
                    if rows := list(parser_rows(below)):
                        yield from table(("option", "meaning", "default"), rows)


@page(
    "signals",
    "Signals",
    """
    Django signals of `django_qless.signals`.
    """,
)
def signals() -> Iterator[str]:
    from django_qless import signals as module

    yield prose(module.__doc__)
    yield ""
    rows = [
        (code(name), text)
        for name, text in comments(module).items()
        if not name.startswith("_")
    ]
    yield from table(("signal", "when, and what it is sent with"), rows)


@page(
    "exceptions",
    "Exceptions",
    """
    Those that a project handles are in `django_qless.exceptions`, the most common ones in
    `django_qless` as well; those of the client for the Lua core in
    `django_qless.core.exceptions`.
    """,
)
def exceptions() -> Iterator[str]:
    for path in ("django_qless.exceptions", "django_qless.core.exceptions"):
        module = import_module(path)
        yield f"## `{path}`"
        yield ""
        yield prose(module.__doc__)
        yield ""
        rows = [
            (code(name), inspect.cleandoc(value.__doc__ or ""))
            for name, value in vars(module).items()
            if inspect.isclass(value)
            and issubclass(value, BaseException)
            and value.__module__ == path
        ]
        yield from table(("exception", "meaning"), rows)


@page(
    "failure-groups",
    "Failure groups",
    """
    A failed job is in one group: the name of the exception that its code raised, what it
    said by `Fail` or `Retry`, or one of these, which django_qless sets itself.
    [Retries and failures](../guides/retries.md) says how a job gets there.
    """,
)
def failure_groups() -> Iterator[str]:
    from django_qless.worker.failure_groups import GROUPS

    rows = [(code(each.name), each.meaning, each.remedy) for each in GROUPS]
    yield from table(("group", "what happened", "what to do"), rows)


#: What users import, or are handed, by heading.
PYTHON = (
    "django_qless",
    "django_qless.admin",
    "django_qless.signals",
    "django_qless.tasks",
    "django_qless.testing",
    "django_qless.core",
)


@page(
    "python-api",
    "Python API",
    """
    What can be imported, with the parameters and what they do. Exceptions and signals have
    [pages](exceptions.md) of [their own](signals.md). Coroutine functions are marked with
    `await`.
    """,
)
def python_api() -> Iterator[str]:
    from django.utils.module_loading import import_string

    from django_qless.core.request import ClientMethod
    from tests.public_api.python import (
        HANDED_OUT,
        attributes,
        defined_in,
        kind,
        signature,
    )

    def entry(name: str, value: Any, owner: type | None = None) -> tuple[str, str]:
        is_client = owner is not None and owner.__name__.startswith("Async")
        waits = kind(value) == "async function" or (
            is_client and isinstance(value, ClientMethod)
        )
        wait = "await " if waits else ""
        shown = f"{wait}{name}{signature(value, owner, name)}"
        return code(shown), first_paragraph(value, owner, name)

    def of_class(name: str, cls: type) -> Iterator[str]:
        yield f"### `{name}`"
        yield ""
        yield prose(cls.__doc__)
        yield ""
        rows = [
            entry(each, inspect.getattr_static(cls, each, None), cls)
            for each in sorted(attributes(cls))
        ]
        if rows:
            yield from table(("name", "what it does"), rows)

    for path in PYTHON:
        module = import_module(path)
        yield f"## `{path}`"
        yield ""
        yield prose((module.__doc__ or "").split("\n\n")[0])
        yield ""
        plain = []
        for name in sorted(getattr(module, "__all__", None) or defined_in(module)):
            value = getattr(module, name)
            if inspect.isclass(value) and issubclass(value, BaseException):
                continue
            cls = value if inspect.isclass(value) else type(value)
            if inspect.isroutine(value) or not cls.__module__.startswith(
                "django_qless"
            ):
                plain.append(entry(name, value))
                continue
            yield from of_class(name, cls)
        if path == "django_qless":
            for name, its_path in HANDED_OUT.items():
                yield from of_class(name, import_string(its_path))
        if plain:
            yield f"### Functions and values of `{path}`"
            yield ""
            yield from table(("name", "what it does"), plain)


def first_paragraph(value: Any, owner: type | None, name: str) -> str:
    """Return the first paragraph of what is said of a name."""
    text = inspect.getdoc(value) or ""
    # The docstring of a plain value is that of its type.
    if not callable(value) and type(value).__doc__ == getattr(value, "__doc__", None):
        text = ""
    if not text and owner is not None:
        text = documented_fields(owner).get(name, "")
    return text.split("\n\n")[0]


def documented_fields(cls: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class and its parents."""
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        if each.__module__.startswith("django_qless"):
            found |= {
                name: text for name, (_, text) in field_docs(each).items() if text
            }
    return found


@page(
    "keys",
    "Keys in Redis",
    """
    Each stands behind the `PREFIX` of its alias (`ql:` by default). They are the core's:
    read them when you look for a fault, and change them only by its calls. `<>` stands for
    a name.
    """,
)
def keys() -> Iterator[str]:
    text = (ROOT / "lua" / "head.lua").read_text()
    begin = text.index("local PATTERNS = {")
    glossary = text[begin : text.index("local function maker", begin)].rstrip()
    yield "```text"
    for line in glossary.splitlines():
        # Lines without an indent are those of the tables that the keys stand in.
        if line[:1].strip() or line.strip() in ("return {", "}"):
            continue
        bare = line.strip()
        if bare.startswith("--"):
            yield (
                bare.removeprefix("--").strip()
                if not bare.startswith("--  ")
                else (f"{'':41}{bare.removeprefix('--').strip()}")
            )
        elif match := re.match(r"\w+ = '([^']*)',\s*--\s*(.*)", bare):
            yield f"{match[1]:<32} {match[2]}"
        else:
            yield bare
    yield "```"
    yield ""


def text_of(name: str) -> str:
    """Return the text of a page."""
    title, introduction, source = PAGES[name]
    head = HEAD.format(title=title, introduction=introduction)
    body = "\n".join(line.rstrip() for line in source())
    return re.sub(r"\n{3,}", "\n\n", f"{head}\n{body}").rstrip() + "\n"


def main() -> int:
    """Write the pages, or compare them; return the exit code."""
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    stale = []
    (HERE / "reference").mkdir(exist_ok=True)
    for name in PAGES:
        path = HERE / "reference" / f"{name}.md"
        text = text_of(name)
        if path.exists() and path.read_text() == text:
            continue
        stale.append(path)
        if "--check" not in sys.argv:
            path.write_text(text)
    for path in stale:
        print(f"{'stale' if '--check' in sys.argv else 'written'}: {path}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
