"""Validation of the function, method or class below `@job`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

from django_qless.exceptions import InvalidJob
from django_qless.job_types.option_checks import takes
from django_qless.job_types.registry import Binding
from django_qless.job_types.signature import POSITIONAL
from django_qless.job_types.source_location import module_of

#: Modules that a worker cannot import by their name: what is typed in or run as a script.
UNNAMED = ("__main__", "__console__", "builtins")


def called(function: Any) -> str:
    """Return the dotted name of the object below `@job`."""
    inner = getattr(function, "fget", None) or function
    name = getattr(inner, "__qualname__", None) or repr(inner)
    return f"{module_of(inner)}.{name}"


def validate_function(function: Any, whose: str, name: str | None) -> None:
    """Raise InvalidJob if a worker could never call this function or method.

    `whose` names it in messages, `name` is the name= given to `@job`.
    """
    trouble = _kind(function) or _place(function, name)
    if trouble:
        raise InvalidJob(f"{whose} {trouble}")


def validate_detached(function: Any, whose: str) -> None:
    """Raise InvalidJob if a new interpreter could not find this detached job."""
    module, name = module_of(function), function.__qualname__
    if module in UNNAMED or "<locals>" in name:
        raise InvalidJob(
            f"{whose} is detached, so a new interpreter runs it, and would not find it: "
            "move it to the top of a module, jobs.py of an app, say"
        )


def why_unbound(function: Callable[..., Any]) -> str:
    """Return why a method of no model cannot be a job, as the rest of sentences."""
    if "<locals>" in function.__qualname__:
        why = (
            "is in a class inside a function, where a worker cannot find it: move the "
            "class to the module"
        )
    else:
        why = (
            "is a method, but not one of a model of this project, so there is nothing "
            "on which a worker could call it"
        )
    return (
        f"{why}. Jobs can be functions, static methods, methods of models that are not "
        "abstract, and classes"
    )


def validate_binding(
    function: Callable[..., Any], whose: str, binding: Binding
) -> None:
    """Raise InvalidJob for a method without a parameter for its row or model."""
    if binding not in (Binding.ROW, Binding.MODEL):
        return
    row = binding is Binding.ROW
    parameters = list(inspect.signature(function).parameters.values())
    first = parameters[0] if parameters else None
    name = function.__name__
    if first is None or first.kind not in (
        *POSITIONAL,
        inspect.Parameter.VAR_POSITIONAL,
    ):
        right = "self" if row else "cls"
        remedy = f"write def {name}({right}, …)"
        if row:
            remedy = f"{remedy}, or put @staticmethod above @job"
        raise InvalidJob(f"{whose} takes no {right}: {remedy}")
    if row and first.name == "cls":
        raise InvalidJob(
            f"{whose} takes cls, but it is no class method:\n\n"
            f"    @classmethod\n    @job\n    def {name}(cls, …): …\n"
        )
    if not row and first.name == "self":
        raise InvalidJob(
            f"{whose} takes self, but as a class method it runs on the model: take "
            "@classmethod away, or call the parameter cls"
        )


def validate_entity(function: Callable[..., Any], whose: str, binding: Binding) -> None:
    """Raise InvalidJob unless the handler of entities takes what it is called with."""
    first = {Binding.ROW: "self, ", Binding.MODEL: "cls, "}.get(binding, "")
    if takes(function, 2 if first else 1):
        return
    what, name = "one dict, {entity: [payload, …]}", "batch"
    if binding is Binding.ROW:
        what, name = "the list of payloads", "payloads"
    raise InvalidJob(
        f"{whose}{inspect.signature(function)} is a job of entities, which is called "
        f"with {what}: write def {function.__name__}({first}{name})"
    )


def _kind(function: Any) -> str:
    if isinstance(function, (property, cached_property)):
        return "is a property, and a property cannot be a job"
    for kind in (classmethod, staticmethod):
        if isinstance(function, kind):
            word = kind.__name__
            return (
                f"is in the wrong order: @{word} must stand above @job, not below it:"
                f"\n\n    @{word}\n    @job\n    def {function.__func__.__name__}(…): …\n"
            )
    if hasattr(function, "declaration"):
        return "has @job twice"
    on = getattr(function, "__self__", None)
    if on is not None and not inspect.ismodule(on):
        return (
            "is bound to an object, which cannot travel: put @job on the method where "
            "it is written"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "yields; a job returns"
    if not callable(function) or not hasattr(function, "__qualname__"):
        return "is no function: @job stands on functions, methods and classes"
    return ""


def _place(function: Any, name: str | None) -> str:
    if name is not None:
        return ""
    if function.__qualname__.endswith("<lambda>"):
        return "is a lambda, which has no name: give it name=, or use def"
    if "<locals>" in function.__qualname__ and not _in_local_class(function):
        return (
            "is defined inside a function, where a worker cannot find it. Move it to "
            "the module, or give it a name= and make sure that the worker runs the "
            "function around it"
        )
    if module_of(function) in UNNAMED:
        return (
            "is defined in the program that was started, which a worker cannot import. "
            "Move it to a module, jobs.py of an app, say; or give it a name= under "
            "which the worker knows it"
        )
    return ""


def _in_local_class(function: Any) -> bool:
    # Whether a class is a model shows when it has been made.
    return "." in function.__qualname__.rpartition("<locals>.")[2]
