"""Arguments and results of jobs for people: named, indented, redacted."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import NoReverseMatch, reverse

from django_qless.admin.formatting import Text, head
from django_qless.admin.links import quote
from django_qless.conf.sealing import open_context, open_text
from django_qless.exceptions import Fail
from django_qless.job_types.redaction import SEALED_NOW, may_show_result, redact
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.serialization.envelope import Envelope
from django_qless.serialization.json_values import json_or_none

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
    """By name, or by position; empty if the data is not an envelope."""
    is_whole: bool
    """True if `values` is complete."""
    json: Text
    hidden: tuple[str, ...]
    """The names of sensitive values, which are hidden."""
    row: str
    """The row of the job, as "shop.Order 5"; "" for none."""
    row_url: str
    """The admin page of the row for this user; "" if there is none."""


@dataclass(frozen=True)
class Result:
    """The return value of a job."""

    is_hidden: bool
    json: Text
    ttl: float | None


def arguments(job: Job, view: View) -> Arguments:
    """Return the arguments of a job, without sensitive values."""
    redacted = redact(job.klass, job.data)
    value = json_or_none(redacted.text)
    values, is_whole = _cut(_values(value, job.klass))
    row, url = row_of(value, job.klass, view)
    return Arguments(
        values, is_whole, head(redacted.text), redacted.hidden, row=row, row_url=url
    )


def result(job: Job, text: str | None, ttl: float | None) -> Result | None:
    """Return the result of a job; None if none is kept."""
    if text is None:
        return None
    if not may_show_result(job.klass, job.data):
        return Result(True, head(""), ttl)
    return Result(False, head(pretty(readable(text))), ttl)


def readable(text: str) -> str:
    """Return a text as it was before it was sealed, or a word that no key opens it."""
    try:
        return open_text(text)
    except Fail:
        return json.dumps(SEALED_NOW)


def readable_context(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a context as it was before it was sealed, as far as a key opens it."""
    try:
        return open_context(context)
    except Fail:
        return context


def pretty(text: str) -> str:
    """Return JSON text indented; other text as it is."""
    value = json_or_none(text)
    return text if value is None else pretty_value(value)


def pretty_value(value: Any) -> str:
    """Return a value as indented JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text.encode("utf-8", "backslashreplace").decode()


def entity_of(data: str) -> str:
    """Return the entity that a job carries; "" for other jobs."""
    envelope = Envelope.read(data)
    entity = None if envelope is None else envelope.entity
    return str(entity) if isinstance(entity, (str, int, float)) else ""


def job_type_of(klass: str) -> JobType | None:
    """Return a job type, if this project knows it."""
    return None if registry.base_of(klass) else registry.get(klass)


def _values(value: Any, klass: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a call, or of a class job's data."""
    job_type = job_type_of(klass)
    if job_type is not None and job_type.binding is Binding.CLASS:
        if isinstance(value, dict):
            yield from value.items()
        return
    envelope = Envelope.of(value)
    if envelope is None or envelope.version is None:
        return
    names = _positional(job_type) if job_type else []
    for at, each in enumerate(envelope.args):
        yield (names[at] if at < len(names) else f"[{at}]"), each
    yield from envelope.kwargs.items()


def _positional(job_type: JobType) -> list[str]:
    """Return the names of the positional parameters."""
    try:
        parameters = list(inspect.signature(job_type.function).parameters.values())
    except (TypeError, ValueError):
        return []
    if job_type.is_bound or job_type.takes_context:
        parameters = parameters[1:]
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return [each.name for each in parameters if each.kind in kinds]


def _cut(values: Iterator[tuple[str, Any]]) -> tuple[list[tuple[str, Text]], bool]:
    """Return as many values as fit, and whether those are all."""
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


def row_of(value: Any, klass: str, view: View) -> tuple[str, str]:
    """Return the row of a job, and its admin page for this user; "" for none."""
    job_type = job_type_of(klass)
    envelope = Envelope.of(value)
    if envelope is None or not envelope.has_row:
        return "", ""
    if job_type is None or job_type.binding is not Binding.ROW:
        return "", ""
    model: type[Model] = job_type.model
    opts, key = model._meta, envelope.row
    if isinstance(key, dict) and key.keys() == {"$uuid"}:
        key = key["$uuid"]
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
