"""The page of the Python API: classes and functions with their types and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from django.utils.module_loading import import_string
from reference_parts import code, field_docs, prose, table

from django_qless.core.request import ClientMethod
from django_qless.job_types.options import KNOWN
from django_qless.tasks import QlessTask
from tests.public_api.python import HANDED_OUT, attributes, defined_in, kind, signature

#: What users import, or are handed, by heading.
MODULES = (
    "django_qless",
    "django_qless.admin",
    "django_qless.signals",
    "django_qless.tasks",
    "django_qless.testing",
    "django_qless.core",
)

#: What `@job` makes: nobody imports its class.
JOB_FUNCTION = {"@job": "django_qless.declare.function.JobFunction"}

#: Names that have no underscore because modules of the package call them.
INTERNAL = {
    *("bound_to", "of_put", "read", "steps", "waits_for"),
    *("declaration", "job_type", "options", "original_function"),
    # What Django asks of the backend of Tasks.
    *("supports_async_task", "supports_defer", "supports_get_result"),
    "supports_priority",
}

#: What all objects of operators have: said once, of the first of them.
OF_EACH = "django_qless.operations.of_alias.OfAlias"

#: What a field of this name holds in each record of the core, unless the record says more.
COMMON = {
    "at": "When it was paused.",
    "brief": "The job's summary.",
    "by": "Who paused it.",
    "canceled": "The number of its canceled jobs.",
    "client": "The client that it was read with.",
    "code": "The first word of the core's error, such as LOCKLOST.",
    "complete": "The number of its complete jobs.",
    "completed": "Jobs that were completed, one number for each span.",
    "context": "What travels beside the data, as JSON text.",
    "counts": "Its name, its last heartbeat, and how many jobs it holds.",
    "cron": "The cron text, None or empty for an interval.",
    "data": "The job's data, as JSON text.",
    "dependencies": "The jids of the jobs that it still waits for.",
    "dependencies_total": "How many jobs it still waits for.",
    "dependents": "The jids of the jobs that wait for it.",
    "dependents_total": "How many jobs wait for it.",
    "ended": "When it ended, None while it runs.",
    "failed": "Runs that failed for good, one number for each span.",
    "failure": "The last failure, None if there was none.",
    "finished": "When it ended, None before.",
    "first": "The first minute: seconds since 1970 / 60.",
    "group": "The failure group.",
    "groups": "The failure groups of this page.",
    "history": "Its events, oldest first: `what` happened `when`, and details.",
    "host": "The name of the host that it runs on.",
    "id": "Its id.",
    "jid": "The job's id.",
    "jobs": "Summaries of some of its jobs.",
    "kind": "`interval` or `cron`.",
    "klass": "The name of the job type.",
    "last": "When the last one failed.",
    "message": "Mostly the traceback.",
    "missed": "The ticks made up for after a time without workers: all, last or none.",
    "name": "Its name.",
    "needs_total": "How many jobs it was ever made to depend on.",
    "number": "How many jobs carry it.",
    "paused": "True while it is paused.",
    "priority": "Higher goes first.",
    "queue": "The name of the queue.",
    "reason": "Why it was paused.",
    "remaining": "How often the job may still be tried again.",
    "retries": "How often a job may be tried again in all.",
    "schedules": "The schedules of this page.",
    "spawned_total": "How many jobs it has spawned.",
    "started": "Runs that began, one number for each span.",
    "step": "The minutes of a span.",
    "tag": "The tag.",
    "tags": "The tags that the job carries.",
    "text": "The core's message.",
    "timezone": "The time zone of `cron`, None or empty for an interval.",
    "token": "The proof of the lock under which it ran.",
    "total": "How many there are in all.",
    "total_groups": "How many failure groups there are in all.",
    "total_jobs": "How many failed jobs there are in all.",
    "tracked": "True if operators track it.",
    "when": "When it happened.",
    "worker": "The name of the worker.",
    "workers": "The workers of this page.",
}

#: What is said of values, which have no docstring.
VALUES = {
    "ListKind": "The kinds of lists of jobs: the states, and what else jobs are listed by.",
    "ORDERS": "The orders that a worker takes: quiet, resume, stop and dump.",
    "Order": "The type of one of them.",
    "__version__": "The version of django_qless, as text.",
}

#: Asynchronous forms that are not named after their blocking form with an `a` in front.
OTHER_NAMES = {"wait": "await_", "delay": "adelay"}


def python_api() -> Iterator[str]:
    """Yield the lines of the page."""
    for path in MODULES:
        module = import_module(path)
        yield f"## `{path}`"
        yield ""
        yield prose((module.__doc__ or "").split("\n\n")[0])
        yield ""
        plain = []
        names = sorted(getattr(module, "__all__", None) or defined_in(module))
        for name in names:
            value = getattr(module, name)
            if inspect.isclass(value) and issubclass(value, BaseException):
                continue
            cls = value if inspect.isclass(value) else type(value)
            if inspect.isroutine(value) or not of_ours(cls):
                plain.append((entry(name, value), told(value) or VALUES.get(name, "")))
            elif f"Async{name}" in names:
                yield from of_pair(name, cls, getattr(module, f"Async{name}"))
            elif not (name.startswith("Async") and name[5:] in names):
                yield from of_class(name, cls)
        if path == "django_qless":
            for name, its_path in (JOB_FUNCTION | HANDED_OUT).items():
                yield from of_class(name, import_string(its_path))
            yield from of_class(
                "Each of config, entities, jobs …", import_string(OF_EACH)
            )
        if plain:
            yield f"### Functions and values of `{path}`"
            yield ""
            yield from table(("name", "what it does"), plain)


def of_ours(cls: type) -> bool:
    """Return whether it is a class of this package."""
    return cls.__module__.startswith("django_qless")


def of_class(name: str, cls: type) -> Iterator[str]:
    """Yield a section: the docstring of a class, and a table of what it has."""
    yield f"### {code(name) if name.isidentifier() or '[' in name else name}"
    yield ""
    yield prose(cls.__doc__)
    yield ""
    if rows := list(rows_of(cls)):
        yield from table(("name", "what it does"), rows)


def of_pair(name: str, cls: type, awaited: type) -> Iterator[str]:
    """Yield the section of a class that blocks, which is that of its other form, too."""
    yield f"### `{name}`, `Async{name}`"
    yield ""
    yield prose(cls.__doc__)
    yield ""
    yield f"`Async{name}`: {prose(awaited.__doc__)}"
    yield ""
    more = shown(awaited) - shown(cls)
    rows = [*rows_of(cls), *(row_of(awaited, each) for each in sorted(more))]
    yield from table(("name", "what it does"), rows)


def shown(cls: type) -> set[str]:
    """Return the names that a class has for users."""
    names = attributes(cls) - INTERNAL
    if issubclass(cls, QlessTask):
        # They are options of a job, and have a page.
        names -= KNOWN | {"aliases", "enqueue_on_commit"}
    if cls.__module__ != OF_EACH.rpartition(".")[0]:
        names -= attributes(import_string(OF_EACH)) if is_of_alias(cls) else set()
    return names


def is_of_alias(cls: type) -> bool:
    """Return whether a class has what all objects of operators have."""
    return issubclass(cls, import_string(OF_EACH))


def rows_of(cls: type) -> Iterator[tuple[str, str]]:
    """Yield the rows of a class; an asynchronous form is in the row of the other one."""
    names = shown(cls)
    twins = {each: twin for each in names if (twin := twin_of(each)) in names}
    for name in sorted(names - set(twins.values())):
        entries, text = row_of(cls, name)
        if name in twins:
            entries += f", {code(awaited(cls, twins[name]))}"
        yield entries, text


def awaited(cls: type, name: str) -> str:
    """Return how the asynchronous form of an attribute is used."""
    value = inspect.getattr_static(cls, name)
    if isinstance(value, property):
        return name
    word = "async for … in" if inspect.isasyncgenfunction(value) else "await"
    return f"{word} {name}(…)"


def twin_of(name: str) -> str:
    """Return the name that the asynchronous form of a method has if there is one."""
    return OTHER_NAMES.get(name, f"a{name}")


def row_of(cls: type, name: str) -> tuple[str, str]:
    """Return the row of one attribute."""
    value = inspect.getattr_static(cls, name, None)
    return entry(name, value, cls), told(value, cls, name)


def entry(name: str, value: Any, owner: type | None = None) -> str:
    """Return a name with its parameters, or with the type of what it holds."""
    waits = kind(value) == "async function" or (
        owner is not None
        and owner.__name__.startswith("Async")
        and isinstance(value, ClientMethod)
    )
    if kind(value) != "attribute":
        target = value if owner is None else getattr(owner, name)
        target = value.build if isinstance(value, ClientMethod) else target
        text = f"{name}{typed(target, signature(value, owner, name))}"
    else:
        text = ": ".join(filter(None, [name, field_type(value, owner, name)]))
    return code(f"{'await ' if waits else ''}{text}")


def typed(target: Any, bare: str) -> str:
    """Return the signature with types; `bare` is that without, with plain defaults."""
    try:
        found = inspect.signature(target)
    except (TypeError, ValueError):
        return bare
    parts: list[str] = []
    keywords = False
    for each in found.parameters.values():
        if each.name in ("self", "cls", "client") and not parts:
            continue
        if each.kind is each.KEYWORD_ONLY and not keywords:
            keywords = True
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
        parts.append(parameter(each, bare))
    returned = plain_type(found.return_annotation)
    return f"({', '.join(parts)})" + (f" -> {returned}" if returned else "")


def parameter(each: inspect.Parameter, bare: str) -> str:
    """Return one parameter as it is written in a signature."""
    star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    hint = plain_type(each.annotation)
    text = f"{star}{each.name}" + (f": {hint}" if hint else "")
    if each.default is each.empty:
        return text
    # As `bare` shows it: without what differs from run to run.
    match = re.search(rf"\b{each.name}=(<\w+>)", bare)
    default = match[1] if match else repr(each.default)
    return f"{text} = {default}" if hint else f"{text}={default}"


def plain_type(annotation: Any) -> str:
    """Return a type as a reader needs it: "" where it says nothing."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = (
        annotation
        if isinstance(annotation, str)
        else inspect.formatannotation(annotation)
    )
    if text in ("P.args", "P.kwargs"):
        return ""
    text = re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)
    if "Literal" not in text:
        text = text.replace('"', "").replace("'", "")
    if match := re.fullmatch(
        r"(?:Request|Steps|Command|CommandSequence|ClassVar)\[(.*)\]", text
    ):
        text = match[1]
    if text in ("Any", "None") or text.startswith("Unpack["):
        return ""
    return re.sub(
        r"\b([RTJ])\b", "Any", re.sub(r"\[([RTJ]|Any|Callable\[P, R\])\]", "", text)
    )


def field_type(value: Any, owner: type | None, name: str) -> str:
    """Return the type of an attribute, "" if it is not written down."""
    getter = getattr(value, "fget", None) or getattr(value, "func", None)
    if getter is not None:
        return plain_type(getattr(getter, "__annotations__", {}).get("return", ""))
    for cls in owner.__mro__ if owner is not None and of_ours(owner) else ():
        if of_ours(cls) and name in (docs := field_docs(cls)):
            return plain_type(docs[name][0])
    return ""


def told(value: Any, owner: type | None = None, name: str = "") -> str:
    """Return what is said of a name, its paragraphs as one."""
    text = "" if owner is None else documented_fields(owner).get(name, "")
    if not text:
        text = inspect.getdoc(value) or ""
        # The docstring of a plain value is that of its type.
        plain = not callable(value) and type(value).__doc__ == getattr(
            value, "__doc__", ""
        )
        if plain or text.startswith("Alias for field number"):
            text = ""
    # A table's cell has no blocks: those are left out.
    paragraphs = (each for each in text.split("\n\n") if not each.startswith("    "))
    return " ".join(paragraphs) or COMMON.get(name, "")


def documented_fields(cls: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class and its parents."""
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        if of_ours(each):
            found |= {
                name: text for name, (_, text) in field_docs(each).items() if text
            }
    return found
