"""What a job carries and what it returned, for people: named, pretty, redacted."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import NoReverseMatch, reverse

from django_qless.admin.links import quote
from django_qless.admin.presenters.texts import Text, head
from django_qless.redaction import may_show_result, redact
from django_qless.registry import Binding, JobType, registry

if TYPE_CHECKING:
    from django.db.models import Model

    from django_qless.admin.views import View
    from django_qless.core import Job

VALUES = 16 * 1024
"""Bytes of HTML that the table of arguments takes."""
MOST_VALUES = 100


@dataclass(frozen=True)
class Arguments:
    """The arguments of a job."""

    values: list[tuple[str, Text]]
    """By name, as far as there are names; empty if the data is none of our envelopes."""
    is_whole: bool
    """Whether `values` has all of them, in full."""
    json: Text
    hidden: tuple[str, ...]
    """The names of what is sensitive and therefore hidden."""
    row: str
    """On which row the job runs, as "shop.Order 5"; "" for none."""
    row_url: str
    """Where the admin shows this row to this user; "" if it does not."""


@dataclass(frozen=True)
class Result:
    """What a job returned."""

    is_hidden: bool
    json: Text
    ttl: float | None


def arguments(job: Job, view: View) -> Arguments:
    """Return what a job carries, without what is sensitive."""
    redacted = redact(job.klass, job.data, view.alias)
    value = _read(redacted.text)
    values, is_whole = _cut(_values(value, job.klass))
    row, url = _row(value, job.klass, view)
    return Arguments(
        values, is_whole, head(redacted.text), redacted.hidden, row=row, row_url=url
    )


def result(job: Job, text: str | None, ttl: float | None, view: View) -> Result | None:
    """Return what a job returned; None if there is nothing (any more)."""
    if text is None:
        return None
    if not may_show_result(job.klass, job.data, view.alias):
        return Result(True, head(""), ttl)
    return Result(False, head(pretty(text)), ttl)


def pretty(text: str) -> str:
    """Return JSON text with a line for each member; what is no JSON, as it is."""
    value = _read(text)
    return text if value is None else pretty_value(value)


def pretty_value(value: Any) -> str:
    """Return a value as JSON with a line for each member."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text.encode("utf-8", "backslashreplace").decode()


def job_type_of(klass: str) -> JobType | None:
    """Return what this project knows of a job type."""
    return None if registry.base_of(klass) else registry.get(klass)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _values(value: Any, klass: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a call; of a class job, the members of its data."""
    job_type = job_type_of(klass)
    if not isinstance(value, dict):
        return
    if job_type is not None and job_type.binding is Binding.CLASS:
        yield from value.items()
        return
    args, kwargs = value.get("args", []), value.get("kwargs", {})
    if "v" not in value or not isinstance(args, list) or not isinstance(kwargs, dict):
        return
    names = _positional(job_type) if job_type else []
    for at, each in enumerate(args):
        yield (names[at] if at < len(names) else f"[{at}]"), each
    yield from kwargs.items()


def _positional(job_type: JobType) -> list[str]:
    """Return the names of the parameters that positional arguments are given to."""
    try:
        parameters = list(inspect.signature(job_type.function).parameters.values())
    except (TypeError, ValueError):
        return []
    if job_type.on_something or job_type.has_context:
        parameters = parameters[1:]
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return [each.name for each in parameters if each.kind in kinds]


def _cut(values: Iterator[tuple[str, Any]]) -> tuple[list[tuple[str, Text]], bool]:
    """Return as many as fit, and whether those are all."""
    shown: list[tuple[str, Text]] = []
    left = VALUES
    for name, value in values:
        if left <= 0 or len(shown) == MOST_VALUES:
            return shown, False
        text = head(pretty_value(value), left)
        shown.append((head(name, 1024).text, text))
        left -= len(text.text) + len(name)
        if text.is_cut:
            return shown, False
    return shown, True


def _row(value: Any, klass: str, view: View) -> tuple[str, str]:
    """Return which row a job runs on, and where this user may see it."""
    job_type = job_type_of(klass)
    if not isinstance(value, dict) or "row" not in value or job_type is None:
        return "", ""
    if job_type.binding is not Binding.ROW:
        return "", ""
    model: type[Model] = job_type.model
    opts, key = model._meta, value["row"]
    text = f"{opts.label} {key if isinstance(key, (str, int)) else json.dumps(key)}"
    if isinstance(key, (list, dict)):
        return text, ""
    site = view.admin.admin_site
    shown = site._registry.get(model)
    if shown is None or not shown.has_view_permission(view.request):
        return text, ""
    name = f"admin:{opts.app_label}_{opts.model_name}_change"
    try:
        return text, reverse(name, args=[quote(str(key))], current_app=site.name)
    except NoReverseMatch:
        return text, ""
