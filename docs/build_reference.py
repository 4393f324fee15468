"""Writes docs/reference/ from the tables and docstrings of the code.

python docs/build_reference.py            write the pages
python docs/build_reference.py --check    exit with 1 if one is not as it would be written
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from reference_parts import code, comments, field_docs, prose, sentence, table

HERE = Path(__file__).parent
ROOT = HERE.parent

sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django  # noqa: E402

django.setup()

import reference_api  # noqa: E402
import reference_commands  # noqa: E402
import reference_keys  # noqa: E402

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
    Tasks takes those marked so (on Django 6.1 and newer, and with the backport; on 6.0 the
    Task's `.using(…)` does: see [Tasks](../guides/tasks.md)), and `OPTIONS` of a Tasks
    backend makes some the default of all its Tasks. [Jobs](../guides/jobs.md) shows them in
    use.

    A span of time is a number of seconds or a timedelta. A value that an option does not
    take raises InvalidOption, which says what it takes; for `@job` that is at import.
    """,
)
def job_options() -> Iterator[str]:
    from django_qless.job_types import option_types
    from django_qless.job_types.option_types import (
        CallOptions,
        CommonOptions,
        DeclaredOptions,
    )
    from django_qless.job_types.options import DEFAULTS, TABLE, In, Options
    from django_qless.schedules.timetable import Timetable

    docs = field_docs(Options)
    types = {"queue": "str"} | {
        # A call may be given more than the code: a moment, a handle.
        name: " ".join(hint.split())
        for taken in (CommonOptions, DeclaredOptions, CallOptions)
        for name, (hint, _) in field_docs(taken).items()
    }
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
            code(types[name]),
            code(repr(getattr(DEFAULTS, name))),
            docs[name][1],
        )
        for name, row in sorted(TABLE.items())
    ]
    yield from table(("option", "where", "takes", "default", "meaning"), rows)
    yield "Of the names in the column *takes*:"
    yield ""
    for name, text in comments(option_types).items():
        yield f"- `{name}`: {text[:1].lower()}{text[1:]}"
    yield ""
    yield "## Of `@job` alone: its name, and when it recurs"
    yield ""
    rest = {
        "name": "The name that workers find the job by, instead of that of its module and function.",
        "aliases": "Names that the job had before: jobs that were enqueued under them run, too.",
        "cron": "When it recurs: five fields, minute to day of the week, or `@hourly`, `@daily`, "
        "`@weekly`, `@monthly`, `@yearly`.",
        "rows": "On a method of a model that recurs: the name of a method of the default manager, "
        "or a function of the model class; what it returns is a queryset, and a job is enqueued "
        "for each of its rows, each time.",
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
    from django_qless.conf import schema, setting_checks, validation
    from django_qless.core.options import OPTIONS

    yield "## Keys of an alias"
    yield ""
    fields = field_docs(schema.Alias)
    docs = {row.name: fields[name][1] for name, row in schema.ATTRIBUTES.items()}
    rows = []
    for row in validation.KEYS:
        text = docs[row.name] if row.name in docs else ELSEWHERE[row.name]
        rows.append((code(f'"{row.name}"'), text, code(f"django_qless.{row.number}")))
    yield from table(("key", "meaning", "its check"), rows)
    yield (
        "Beside it, `QLESS_ROUTES` says which alias has a queue: a dict from names and globs of "
        "queues to aliases, see [routes](../guides/routing.md). `QLESS_MODULES` lists the names of the modules of apps in which "
        "workers look for jobs; the default is `jobs` and `tasks`. "
        "`QLESS_MONITORING_TOKEN` is the token, or a list of tokens, of "
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


@page(
    "worker",
    "`manage.py qless_worker`",
    """
    Takes jobs from queues and runs them. [The worker](../guides/worker.md) says which pool
    and how many processes to choose.
    """,
)
def worker() -> Iterator[str]:
    return reference_commands.worker()


@page(
    "commands",
    "Commands",
    """
    What `manage.py` can do for operators. [The worker](worker.md) has a page.

    These options are not repeated below. `--alias ALIAS` is taken by all
    commands: the alias of the setting QLESS (default: that of the queue which the
    command names, by QLESS_ROUTES, or else `default`). `--json` prints JSON, for programs
    (of changes, an object whose `text` says what was done); all take it but
    `qless_embedded` and `qless_metrics`. Django's own options,
    such as `--settings`, stand before a subcommand or behind it. With `-v 0` changes print
    nothing but what was refused, and checks nothing but what is wrong. The exit code is 0,
    or 1 after an error, or as a command says.
    """,
)
def commands() -> Iterator[str]:
    return reference_commands.commands()


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
    `django_qless.core.exceptions`. The last column is also the end of
    the message of a QlessError.
    """,
)
def exceptions() -> Iterator[str]:
    for path in ("django_qless.exceptions", "django_qless.core.exceptions"):
        module = import_module(path)
        yield f"## `{path}`"
        yield ""
        yield prose(module.__doc__)
        yield ""
        # The tree says of each when it is raised; those of the core say it themselves.
        with_when = path == "django_qless.exceptions"
        when = dict(re.findall(r"(\w+) {2,}(\S.*)", module.__doc__ or ""))
        rows = [
            (
                code(raised_as(name, value)),
                *([sentence(when.get(name, ""))] if with_when else []),
                explained(value),
            )
            for name, value in vars(module).items()
            if inspect.isclass(value)
            and issubclass(value, BaseException)
            and value.__module__ == path
        ]
        when_column = ["when"] if with_when else []
        yield from table(
            ("exception", *when_column, "what it means, and what to do"), rows
        )


def raised_as(name: str, cls: type[BaseException]) -> str:
    """Return an exception's name, with the parameters of those that jobs raise."""
    if name not in ("Retry", "Fail", "RowGone", "BatchFailure"):
        return name
    return f"{name}{reference_api.typed(cls, '')}"


def explained(cls: type[BaseException]) -> str:
    """Return the docstring of an exception, and of its attributes."""
    source = inspect.getsource(cls)
    found = re.findall(r"((?: +#: .*\n)+) +self\.(\w+)", source)
    attributes = [
        f"`{name}`: {' '.join(line.strip(' #:') for line in text.splitlines())}"
        for text, name in found
    ]
    return " ".join([inspect.cleandoc(cls.__doc__ or ""), *attributes])


@page(
    "python-api",
    "Python API",
    """
    What can be imported, or is handed to your code, with its parameters, types and
    defaults. Exceptions and signals have [pages](exceptions.md) of
    [their own](signals.md). What ends in `await name(…)` has an asynchronous form of that
    name, which takes and returns the same. Times are in seconds since 1970 where nothing
    else is said.
    """,
)
def python_api() -> Iterator[str]:
    return reference_api.python_api()


@page(
    "keys",
    "Keys in Redis",
    """
    For those who look for a fault with `redis-cli`. Each key stands behind the `PREFIX` of
    its alias (`ql:` by default); `<>` stands for a name or an id. Read them, and change
    them only by calls: they depend on each other. The words of the core are older than
    those of the pages: `work` has the waiting jobs, `klass` is the name of a job type, a
    job that is put is enqueued, and one that is popped has been given to a worker. A time
    is in seconds since 1970.
    """,
)
def keys() -> Iterator[str]:
    return reference_keys.keys(ROOT / "lua" / "core" / "keys.lua")


def text_of(name: str) -> str:
    """Return the text of a page."""
    title, introduction, source = PAGES[name]
    head = HEAD.format(title=title, introduction=introduction)
    body = "\n".join(line.rstrip() for line in source())
    return re.sub(r"\n{3,}", "\n\n", f"{head}\n{body}").rstrip() + "\n"


def main() -> int:
    """Write the pages, or compare them; return the exit code."""
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
