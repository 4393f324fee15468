"""Limits that jobs declare: their validation, and as options of the core."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from django_qless.conf import config_sync, routing
from django_qless.core.options import RENAMED
from django_qless.exceptions import InvalidOption
from django_qless.job_types.redaction import parameters_of
from django_qless.job_types.registry import JobType, registry

if TYPE_CHECKING:
    from django_qless.job_types.options import Options

#: The options of the core that limits become, behind the job's name.
CORE_OPTIONS = (
    *("max-concurrency-of-type", "rate-of-type"),
    *("max-concurrency-per-key", "rate-per-key"),
)


def validate_keys(whose: str, options: Options, function: Callable[..., Any]) -> None:
    """Raise InvalidOption if a key is the name of no parameter of the job."""
    for option in ("concurrency_key", "fair_by"):
        name = getattr(options, option)
        if not isinstance(name, str):
            continue
        if inspect.isclass(function):
            raise InvalidOption(
                f"{whose}: {option}={name!r}: a class job has no parameters. Give a "
                "function of its data."
            )
        parameters = {each.name: each for each in parameters_of(function)}
        kinds = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
        if name not in parameters or parameters[name].kind in kinds:
            raise InvalidOption(
                f"{whose}: {option}={name!r}: there is no such parameter. Name one of "
                f"{', '.join(parameters) or 'none'}, or give a function of the arguments."
            )


def core_options(name: str, options: Options) -> dict[str, str]:
    """Return what the options of a job declare, by the core's names.

    With a key, the limits count per key; without any, one job of each key runs at a time.
    """
    has_key = options.concurrency_key is not None
    most, rate = options.max_concurrency, options.rate
    if has_key and most is None and rate is None:
        most = 1
    kind = "per-key" if has_key else "of-type"
    values = {f"max-concurrency-{kind}": most, f"rate-{kind}": rate}
    return {
        f"{name}-{option}": str(value)
        for option, value in values.items()
        if value is not None
    }


def declared_options(alias: str) -> dict[str, str]:
    """Return what the jobs of an alias declare.

    Jobs that were put under a former name of their type count under its limits as well,
    also under those that only an operator has set.
    """
    declared: dict[str, str] = {}
    for job_type in _types_of(alias):
        declared |= core_options(job_type.name, job_type.options)
        declared |= {
            f"{former}-{RENAMED.name}": job_type.name for former in job_type.aliases
        }
    return declared


def renamed_options(alias: str) -> dict[str, str]:
    """Return the options of former names of jobs, and what they are called by now."""
    return {
        f"{former}-{option}": f"{job_type.name}-{option}"
        for job_type in _types_of(alias)
        for former in job_type.aliases
        for option in CORE_OPTIONS
    }


def _types_of(alias: str) -> Iterator[JobType]:
    for job_type in registry:
        if routing.alias_for(job_type.options) == alias:
            yield job_type


config_sync.sources.append(declared_options)
config_sync.renames.append(renamed_options)
