"""System checks of jobs, for what shows only when all of them are loaded.

django_qless.E016   a module of jobs that cannot be imported
django_qless.E019   after= with a name that stands for no job, or in a cycle
django_qless.E020   a decorator above @job, which hides the job
django_qless.E021   a job of a model that something else has taken the place of
django_qless.E026   retry_on or fail_on: an exception that cannot be imported
django_qless.E027   on_commit: a database that does not exist
django_qless.E028   alias: not in QLESS
django_qless.E029   unique: a function that cannot take the job's arguments
django_qless.E056   two job types with entities in one queue
django_qless.W004   a job in a class that is neither a model nor part of one
django_qless.W005   a job in a module that workers do not import
django_qless.W008   detached jobs and others in one queue
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Iterator
from inspect import Parameter
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db.models.base import ModelBase

from django_qless import conf
from django_qless.checks.messages import caution, error
from django_qless.conf import routing
from django_qless.declare import method
from django_qless.declare.function import JobFunction
from django_qless.enqueue import dispatch
from django_qless.enqueue.dependencies import check_after
from django_qless.exceptions import InvalidJob
from django_qless.job_types import discovery
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.job_types.signature import POSITIONAL
from django_qless.job_types.source_location import location_of
from django_qless.job_types.validation import why_unbound


def check_modules(**kwargs: Any) -> list[CheckMessage]:
    """Import the modules of jobs, as a worker does at its start."""
    return [
        error(
            "E016",
            f"The module {failure.module} cannot be imported: {failure.error!r}",
            "A worker would not start either.",
        )
        for failure in discovery.import_failures()
    ]


def check_jobs(**kwargs: Any) -> list[CheckMessage]:
    """Check the declarations of all jobs."""
    list(discovery.import_failures())
    return [*_after(), *_hidden(), *_replaced(), *_without_model(), *_undiscovered()]


def check_options(**kwargs: Any) -> list[CheckMessage]:
    """Check the names in the options of all jobs."""
    list(discovery.import_failures())
    return [message for job_type in registry for message in _options(job_type)]


def check_queues_of_detached(**kwargs: Any) -> list[CheckMessage]:
    """Warn of queues that a long run would close to other jobs."""
    queues: dict[tuple[str, str], list[JobType]] = {}
    for job_type in registry:
        options = job_type.options
        queues.setdefault((routing.alias_for(options), options.queue), []).append(
            job_type
        )
    messages: list[CheckMessage] = []
    for (_, queue), job_types in sorted(queues.items(), key=lambda each: each[0]):
        detached = [each for each in job_types if each.options.detached]
        others = [each for each in job_types if not each.options.detached]
        if detached and others:
            messages.append(
                caution(
                    "W008",
                    f"The queue {queue!r} has detached jobs, such as "
                    f"{detached[0].name}, and others, such as {others[0].name}: a host "
                    "that runs as many detached jobs as it may takes nothing from it.",
                    "Give detached jobs a separate queue.",
                )
            )
    return messages


def check_queues_of_entities(**kwargs: Any) -> list[CheckMessage]:
    """Refuse a queue with entities of two job types: the core knows one for each."""
    owners: dict[tuple[str, str], JobType] = {}
    messages: list[CheckMessage] = []
    for job_type in registry:
        options = job_type.options
        if not options.entity:
            continue
        owner = owners.setdefault((routing.alias_for(options), options.queue), job_type)
        if owner is not job_type:
            messages.append(
                error(
                    "E056",
                    f"{location_of(job_type.function)}: {job_type.name} has entities in "
                    f"the queue {options.queue!r}, and so has {owner.name}: what is "
                    "pushed to the second of them would be refused.",
                    "Give each job with entity=True a separate queue.",
                )
            )
    return messages


def _after() -> Iterator[CheckMessage]:
    for job_type in registry:
        try:
            check_after(job_type)
        except InvalidJob as wrong:
            yield error(
                "E019",
                str(wrong),
                "A name in after= is that of another job of the same model or "
                "module, or the full name of a job.",
            )


def _hidden() -> Iterator[CheckMessage]:
    for job_type in registry:
        function = job_type.function
        module = sys.modules.get(function.__module__)
        # Methods are checked when their models are made.
        found = getattr(module, function.__qualname__, None)
        hidden = method.hidden_in(found) if callable(found) else None
        if hidden is not None and hidden.declaration.function is function:
            yield error(
                "E020",
                f"{location_of(function)}: {job_type.name} {method.HIDDEN}.",
                "The decorators below @job are run by the worker, too.",
            )


def _replaced() -> Iterator[CheckMessage]:
    for model, attribute, job_type in method.bound:
        found = vars(model).get(attribute)
        if registry.get(job_type.name) is job_type and not isinstance(
            found, JobFunction
        ):
            kind = type(found).__name__
            yield error(
                "E021",
                f"{location_of(job_type.function)}: {job_type.name} cannot be enqueued: "
                f"{model._meta.label}.{attribute} has become something else (a {kind}).",
                "Has a relation to this model the related_name "
                f"{attribute!r}? Call one of them otherwise.",
            )


def _without_model() -> Iterator[CheckMessage]:
    at_home = {job_type.function for job_type in registry}
    for declaration in method.declared:
        function, owner = declaration.function, method.class_of(declaration)
        whose = f"{location_of(function)}: {declaration.origin} cannot be enqueued"
        if function in at_home:
            continue
        if owner is None and declaration.schedule is not None:
            # The first .delay() tells it of others; a schedule has none.
            yield caution(
                "W004", f"{whose}, nor by its schedule: it {why_unbound(function)}."
            )
        # An abstract model or a mixin may be there for other projects.
        elif owner and not isinstance(owner, ModelBase) and not owner.__subclasses__():
            yield caution(
                "W004",
                f"{whose}: no model has it, so there is nothing on which a worker could "
                "call it.",
                "Jobs can be functions, static methods, methods of models, and "
                "classes.",
            )


def _undiscovered() -> Iterator[CheckMessage]:
    for job_type in registry:
        reason = discovery.why_undiscovered(job_type)
        if reason:
            yield caution(
                "W005",
                f"{location_of(job_type.function)}: {job_type.name}: {reason}.",
                "The setting QLESS_MODULES names other modules to import.",
            )


def _options(job_type: JobType) -> Iterator[CheckMessage]:
    options = job_type.options
    whose = f"{location_of(job_type.function)}: {job_type.name}"
    for option in ("retry_on", "fail_on"):
        for each in getattr(options, option):
            if isinstance(each, str) and (trouble := _no_exception(each)):
                yield error(
                    "E026", f"{whose}: {option}: {trouble}", "Check the spelling."
                )
    database = options.on_commit
    if (
        isinstance(database, str)
        and database != dispatch.OUTBOX
        and database not in settings.DATABASES
    ):
        yield error(
            "E027",
            f"{whose}: on_commit={options.on_commit!r} is not in DATABASES.",
            f"There are: {', '.join(settings.DATABASES)}.",
        )
    if options.alias is not None and options.alias not in _aliases(options.alias):
        yield error(
            "E028",
            f"{whose}: alias={options.alias!r} is not in QLESS.",
            f"There are: {', '.join(_aliases(options.alias))}.",
        )
    if callable(options.unique) and (trouble := _mismatch(job_type, options.unique)):
        yield error(
            "E029",
            f"{whose}: unique={options.unique!r} is called with the job's arguments, "
            f"and does not take all that the job takes: {trouble}.",
            "Give it the parameters of the job; a method's first is the instance.",
        )


def _aliases(otherwise: str) -> list[str]:
    try:
        return conf.alias_names()
    except ImproperlyConfigured:
        return [otherwise]  # E001 says so


def _no_exception(dotted: str) -> str:
    """Return why this dotted name is no exception, "" if it is one."""
    try:
        found = pkgutil.resolve_name(dotted)
    except Exception as error:  # noqa: BLE001  what importing it raises
        return f"{dotted} cannot be imported: {error}"
    if isinstance(found, type) and issubclass(found, BaseException):
        return ""
    return f"{dotted} is no exception."


def _mismatch(job_type: JobType, unique: Any) -> str:
    """Return why a function cannot take a job's fewest, or its most, arguments."""
    if job_type.binding is Binding.CLASS:
        return ""
    try:
        parameters = list(inspect.signature(job_type.function).parameters.values())
        signature = inspect.signature(unique)
    except (TypeError, ValueError):
        return ""
    for only_needed in (True, False):
        asked = [
            p for p in parameters if not only_needed or p.default is Parameter.empty
        ]
        args = [None for p in asked if p.kind in POSITIONAL]
        kwargs = {p.name: None for p in asked if p.kind is Parameter.KEYWORD_ONLY}
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
    return ""
