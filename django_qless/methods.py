"""Jobs on models: each concrete model gets its own, named `app_label.Model.method`.

A method is declared where it is written: in a model, an abstract model, a mixin. Which
models it belongs to is known when they are made (`class_prepared`), so that proxies and
children have jobs of their own. The historical models of migrations are left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db.models import Model
from django.db.models.base import ModelBase
from django.db.models.signals import class_prepared

from django_qless.functions import Declaration, JobFunction
from django_qless.registry import Binding, JobType, registry


def bind(sender: type[Model], **kwargs: Any) -> None:
    """Give a model that has just been made its own jobs."""
    if sender._meta.apps is not apps:
        return
    for attribute, declared, binding in _declared_on(sender):
        job_type = _job_type(sender, attribute, declared.declaration, binding)
        setattr(sender, attribute, declared.bound_to(registry.register(job_type)))


def static_job_type(declaration: Declaration) -> JobType | None:
    """Return the job type of a static method in a class that is no model, or None.

    Other methods of such classes cannot be jobs: nothing says on what to call them.
    """
    function = declaration.function
    owner: Any = sys.modules.get(function.__module__)
    *path, attribute = function.__qualname__.split(".")
    for part in path:
        owner = getattr(owner, part, None)
    if not isinstance(owner, type) or isinstance(owner, ModelBase):
        return None
    found = vars(owner).get(attribute)
    if not isinstance(found, staticmethod):
        return None
    return JobType(
        name=declaration.name or declaration.origin,
        function=function,
        options=declaration.options,
        aliases=declaration.aliases,
        is_async=declaration.is_async,
    )


def _declared_on(
    model: type[Model],
) -> Iterator[tuple[str, JobFunction[..., Any], Binding]]:
    """Yield the attributes of a model that are jobs, inherited ones included."""
    seen: set[str] = set()
    for parent in model.__mro__:
        for attribute, value in list(vars(parent).items()):
            if attribute in seen:
                continue
            # The first definition counts: a child may override a job without `@job`.
            seen.add(attribute)
            found = _declared(value)
            if found and found[0].declaration.in_class:
                yield attribute, *found


def _declared(value: object) -> tuple[JobFunction[..., Any], Binding] | None:
    if isinstance(value, JobFunction):
        if value.job_type is not None:
            return value, value.job_type.binding
        return value, Binding.ROW
    if isinstance(value, classmethod) and isinstance(value.__func__, JobFunction):
        return value.__func__, Binding.MODEL
    if isinstance(value, staticmethod) and isinstance(value.__func__, JobFunction):
        return value.__func__, Binding.FUNCTION
    return None


def _job_type(
    model: type[Model], attribute: str, declaration: Declaration, binding: Binding
) -> JobType:
    # A child of a model that has the job already needs a name of its own.
    inherited = any(
        isinstance(found := vars(parent).get(attribute), JobFunction)
        and found.job_type is not None
        and found.declaration is declaration
        for parent in model.__mro__[1:]
    )
    return JobType(
        name=(not inherited and declaration.name) or f"{model._meta.label}.{attribute}",
        function=declaration.function,
        options=declaration.options,
        binding=binding,
        owner=model,
        aliases=() if inherited else declaration.aliases,
        is_async=declaration.is_async,
    )


class_prepared.connect(bind, dispatch_uid="django_qless.methods")
