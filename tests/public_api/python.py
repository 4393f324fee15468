"""Names that other code imports, with their signatures."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from django.utils.module_loading import import_string

from django_qless.core.request import ClientMethod

#: Modules that users import from, or name in a setting. Those with __all__ show what is in it.
MODULES = (
    "django_qless",
    "django_qless.admin",
    "django_qless.core",
    "django_qless.exceptions",
    "django_qless.health",
    "django_qless.signals",
    "django_qless.tasks",
    "django_qless.testing",
)

#: What users are handed without importing its class.
HANDED_OUT = {
    "queues[name]": "django_qless.operations.objects.QueueHandle",
    "recurring[id]": "django_qless.schedules.handle.RecurringHandle",
    "entities[queue]": "django_qless.operations.entities.QueueEntities",
}


def lines() -> Iterator[str]:
    """Return a line for each name, and for each attribute of classes."""
    for path in MODULES:
        module = import_module(path)
        for name in sorted(getattr(module, "__all__", None) or defined_in(module)):
            yield from shown(f"{path}.{name}", getattr(module, name))
    for name, path in HANDED_OUT.items():
        cls = import_string(path)
        yield f"{name}: {cls.__name__}"
        yield from members(name, cls)


def defined_in(module: Any) -> list[str]:
    """Return the public names that a module without __all__ defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", module.__name__) == module.__name__
        and name not in ("annotations", "TYPE_CHECKING")
    ]


def shown(path: str, value: Any) -> Iterator[str]:
    """Return lines for one name."""
    if inspect.isclass(value):
        caught = value.__mro__[1:-2] if issubclass(value, Exception) else ()
        bases = "".join(f" < {base.__name__}" for base in caught)
        yield f"{path}: class{signature(value)}{bases}"
        if issubclass(value, enum.Enum):
            yield from (f"{path}.{each.name} = {each.value!r}" for each in value)
        else:
            yield from members(path, value)
    elif inspect.isroutine(value):
        yield f"{path}: {kind(value)}{signature(value)}"
    else:
        yield f"{path}: {type(value).__name__}"
        if type(value).__module__.startswith("django_qless"):
            yield from members(path, type(value))


def members(path: str, cls: type) -> Iterator[str]:
    """Return lines for the public attributes of a class."""
    for name in sorted(attributes(cls)):
        found = inspect.getattr_static(cls, name, None)
        yield f"{path}.{name}: {kind(found)}{signature(found, cls, name)}"


def attributes(cls: type) -> set[str]:
    """Return the public attributes that our classes give a class."""
    ours = [each for each in cls.__mro__ if each.__module__.startswith("django_qless")]
    named = {name for each in ours for name in (*vars(each), *annotated(each))}
    return {name for name in named if not name.startswith("_")}


def annotated(cls: type) -> list[str]:
    """Return the names that a class only annotates."""
    return list(vars(cls).get("__annotations__", ()))


def kind(value: Any) -> str:
    """Return what sort of attribute it is."""
    if isinstance(value, staticmethod | classmethod):
        return f"{type(value).__name__} "
    if inspect.iscoroutinefunction(value):
        return "async function"
    if inspect.isfunction(value) or isinstance(value, ClientMethod):
        return "function"
    # Fields of instances, and values that are computed when they are asked for.
    return "attribute"


def signature(value: Any, owner: type | None = None, name: str = "") -> str:
    """Return a callable's parameters and their defaults, without their types."""
    if kind(value) == "attribute" and not inspect.isclass(value):
        return ""
    if isinstance(value, ClientMethod):
        target = value.build
    else:
        target = value if owner is None else getattr(owner, name)
    try:
        found = inspect.signature(target)
    except (TypeError, ValueError):
        return ""
    bare = [
        each.replace(annotation=inspect.Parameter.empty, default=default(each))
        for each in found.parameters.values()
    ]
    return str(found.replace(parameters=bare, return_annotation=found.empty))


class Shown(str):
    """A default as it is shown, without quotes."""

    def __repr__(self) -> str:
        return str(self)


def default(parameter: inspect.Parameter) -> Any:
    """Return a default without what differs from run to run."""
    value = parameter.default
    if value is parameter.empty or isinstance(
        value, str | int | float | tuple | list | dict | None
    ):
        return value
    return Shown(f"<{getattr(value, '__name__', type(value).__name__)}>")
