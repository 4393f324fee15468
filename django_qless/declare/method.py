"""Jobs on models: each concrete model gets its own, named `app_label.Model.method`.

A method is declared where it is written: in a model, an abstract model, a mixin. Which
models it belongs to is known when they are made (`class_prepared`), so that proxies and
children have jobs of their own. The historical models of migrations are left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from django.apps import apps
from django.db.models import Model
from django.db.models.base import ModelBase
from django.db.models.signals import class_prepared

from django_qless.declare.declaration import Declaration
from django_qless.declare.function import JobFunction
from django_qless.enqueue.dependencies import check_after
from django_qless.exceptions import InvalidJob
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.job_types.source_location import locate_errors
from django_qless.job_types.validation import validate_binding, validate_entity
from django_qless.schedules.timetable import checked_schedule

HIDDEN = (
    "is hidden by a decorator above @job, so it cannot be enqueued: let @job stand above all "
    "others, except classmethod and staticmethod"
)


class Bound(NamedTuple):
    """A job of a model, and the attribute under which the model has it."""

    model: type[Model]
    attribute: str
    job_type: JobType


#: All jobs of models, for checks that are made when everything is loaded.
bound: list[Bound] = []

#: All methods with `@job`, of whichever classes.
declared: list[Declaration] = []


def bind(sender: type[Model], **kwargs: Any) -> None:
    """Give a model that has just been made its own jobs."""
    # A model that another one takes the place of has no rows.
    if sender._meta.apps is not apps or sender._meta.swapped:
        return
    _must_spare_fields(sender)
    found = []
    for attribute, declared, binding in list(_declared_on(sender)):
        declaration = declared.declaration
        with locate_errors(declaration.function):
            validate_binding(declaration.function, declared.name, binding)
            if declaration.options.entity:
                validate_entity(declaration.function, declared.name, binding)
            job_type = _job_type(sender, attribute, declaration, binding)
            if attribute in vars(Model) or attribute == "objects":
                raise InvalidJob(
                    f"{job_type.name} takes the place of {attribute}, which Django itself "
                    f"calls on models: give it another name, such as {attribute}_later"
                )
        setattr(sender, attribute, declared.bound_to(job_type))
        found.append(Bound(sender, attribute, job_type))
    for each in found:
        check_after(each.job_type, only_near=True)
    for each in found:
        with locate_errors(each.job_type.function):
            registry.register(each.job_type)
    bound.extend(found)


def declare_method(declaration: Declaration) -> JobFunction[..., Any]:
    """Return the job of a method; its kind is known once its class is made."""
    declared.append(declaration)
    registry.defer(declaration.origin, lambda: static_job_type(declaration))
    return JobFunction(declaration)


def static_job_type(declaration: Declaration) -> JobType | None:
    """Return the job type of a static method outside of models, or None.

    Other methods of such classes cannot be jobs: nothing says on what to call them.
    """
    function = declaration.function
    owner = class_of(declaration)
    if owner is None or isinstance(owner, ModelBase):
        return None
    found = vars(owner).get(function.__name__)
    if not isinstance(found, staticmethod):
        return None
    if declaration.options.entity:
        with locate_errors(function):
            validate_entity(function, declaration.origin, Binding.FUNCTION)
    return JobType(
        name=declaration.name or declaration.origin,
        function=function,
        options=declaration.options,
        aliases=declaration.aliases,
        is_async=declaration.is_async,
        # A system check tells whether it fits.
        schedule=declaration.schedule,
        importers=declaration.importers,
    )


def class_of(declaration: Declaration) -> type | None:
    """Return the class in whose body a method is written, if it can be reached."""
    function = declaration.function
    owner: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split(".")[:-1]:
        owner = getattr(owner, part, None)
    return owner if isinstance(owner, type) else None


def hidden_in(value: object) -> JobFunction[..., Any] | None:
    """Return the job that another decorator, or a property, hides, or None."""
    if isinstance(value, (classmethod, staticmethod)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, cached_property):
        value = value.func
    elif isinstance(value, JobFunction):
        return None
    while value is not None and not isinstance(value, JobFunction):
        value = getattr(value, "__wrapped__", None)
    return value


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
            hidden = hidden_in(value)
            # Under another name it is an addition, and the job is there as well.
            if hidden and hidden.__name__ == attribute:  # type: ignore[attr-defined]
                with locate_errors(hidden.declaration.function):
                    raise InvalidJob(f"{hidden.name} {HIDDEN}")
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


def _must_spare_fields(model: type[Model]) -> None:
    """Refuse jobs that have the name of a field: one of them would be hidden."""
    fields = [*model._meta.fields, *model._meta.many_to_many]
    for parent in model.__mro__:
        meta = getattr(parent, "_meta", None)
        if meta is not None and meta.abstract:
            # Django leaves a field away if its name is that of something else.
            fields += [*meta.local_fields, *meta.local_many_to_many]
    names = {name for each in fields for name in (each.name, each.attname)}
    for parent in model.__mro__:
        for name in names & vars(parent).keys():
            found = _declared(vars(parent)[name])
            if found is not None:
                with locate_errors(found[0].declaration.function):
                    raise InvalidJob(
                        f"{found[0].name} and a field of {model._meta.label} have the "
                        "same name: rename one of them"
                    )


def _job_type(
    model: type[Model], attribute: str, declaration: Declaration, binding: Binding
) -> JobType:
    if binding is Binding.ROW and declaration.options.batch_size > 1:
        raise InvalidJob(
            f"{declaration.origin}: batch_size={declaration.options.batch_size} cannot go "
            "with a method of rows, which runs on one row: leave it out, or use a function"
        )
    # A child of a model that has the job already needs its own name.
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
        # The rows of a proxy or a child are rows of the model that has the job already.
        schedule=None
        if inherited
        else checked_schedule(declaration.schedule, binding, declaration.function),
    )


class_prepared.connect(bind, dispatch_uid="django_qless.declare.method")
