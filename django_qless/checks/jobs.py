"""System checks of jobs: what shows only when all of them are loaded.

Their numbers:

    django_qless.E019   after= with a name that stands for no job, or in a circle
    django_qless.E020   a decorator above @job, which hides the job
    django_qless.E021   a job of a model that something else has taken the place of
    django_qless.W004   a job in a class that is neither a model nor part of one
    django_qless.W005   a job in a module that workers do not import
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution
from django.db.models.base import ModelBase

from django_qless import discovery, methods
from django_qless.exceptions import InvalidJob
from django_qless.functions import JobFunction
from django_qless.places import place_of
from django_qless.puts.predecessors import judge
from django_qless.puts.unfound import why_unfound
from django_qless.registry import registry


def check_jobs(**kwargs: Any) -> list[CheckMessage]:
    """Judge the jobs of all modules; those that cannot be imported are E016."""
    list(discovery.failures())
    return [*_after(), *_hidden(), *_replaced(), *_homeless(), *_unfound()]


def _after() -> Iterator[CheckMessage]:
    for job_type in registry:
        try:
            judge(job_type)
        except InvalidJob as error:
            yield Error(
                str(error),
                hint="A name in after= is that of another job of the same model or "
                "module, or the full name of a job.",
                id="django_qless.E019",
            )


def _hidden() -> Iterator[CheckMessage]:
    for job_type in registry:
        function = job_type.function
        module = sys.modules.get(function.__module__)
        # Methods are judged when their models are made.
        found = getattr(module, function.__qualname__, None)
        hidden = methods.hidden_in(found) if callable(found) else None
        if hidden is not None and hidden.declaration.function is function:
            yield Error(
                f"{place_of(function)}: {job_type.name} {methods.HIDDEN}.",
                hint="The decorators below @job are run by the worker, too.",
                id="django_qless.E020",
            )


def _replaced() -> Iterator[CheckMessage]:
    for model, attribute, job_type in methods.bound:
        found = vars(model).get(attribute)
        if registry.get(job_type.name) is job_type and not isinstance(
            found, JobFunction
        ):
            kind = type(found).__name__
            yield Error(
                f"{place_of(job_type.function)}: {job_type.name} cannot be put: "
                f"{model._meta.label}.{attribute} has become something else (a {kind}).",
                hint="Has a relation to this model the related_name "
                f"{attribute!r}? Call one of them otherwise.",
                id="django_qless.E021",
            )


def _homeless() -> Iterator[CheckMessage]:
    at_home = {job_type.function for job_type in registry}
    for declaration in methods.declared:
        owner = methods.class_of(declaration)
        # An abstract model or a mixin may be there for other projects.
        if declaration.function in at_home or owner is None:
            continue
        if not isinstance(owner, ModelBase) and not owner.__subclasses__():
            yield Caution(
                f"{place_of(declaration.function)}: {declaration.origin} cannot be put: "
                "no model has it, so there is nothing on which a worker could call it.",
                hint="Jobs can be functions, static methods, methods of models, and "
                "classes.",
                id="django_qless.W004",
            )


def _unfound() -> Iterator[CheckMessage]:
    for job_type in registry:
        reason = why_unfound(job_type)
        if reason:
            yield Caution(
                f"{place_of(job_type.function)}: {job_type.name}: {reason}.",
                hint="The setting QLESS_MODULES names other modules to import.",
                id="django_qless.W005",
            )
