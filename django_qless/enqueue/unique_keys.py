"""Unique keys: when two calls are the same job, by the option `unique`.

Keys are the job type's own: two types may use the same text. In the core a key is
`<job name>:<text>`, with a digest of the text if it would be too long.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django_qless.exceptions import InvalidOption
from django_qless.job_types.option_checks import MOST_NAME_BYTES
from django_qless.serialization.derived_types import name_text

if TYPE_CHECKING:
    from django_qless.job_types.registry import JobType


def key_of(
    whose: str,
    unique: Any,
    data: Callable[[], str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str:
    """Return the key of a job by its option `unique`, "" for none.

    `data()` is the same for all ways to write the same call; the arguments are those that
    the job's function gets.
    """
    if unique is None:
        return ""
    if isinstance(unique, str):
        return of_text(whose, unique)
    if unique is True:
        return of_data(whose, data())
    return of_call(whose, unique, args, kwargs)


def of_text(whose: str, text: str) -> str:
    """Return the key of a job that names it itself."""
    text = name_text(text)
    key = f"{whose}:{text}"
    if len(key.encode()) > MOST_NAME_BYTES:
        key = f"{whose}:{hashlib.sha256(text.encode()).hexdigest()}"
    if len(key.encode()) > MOST_NAME_BYTES:
        return hashlib.sha256(key.encode()).hexdigest()
    return key


def under_aliases(job_type: JobType, key: str) -> tuple[str, ...]:
    """Return the key of a job under each name that its type had before."""
    if not job_type.aliases or not key.startswith(f"{job_type.name}:"):
        return ()
    text = key.removeprefix(f"{job_type.name}:")
    return tuple(of_text(alias, text) for alias in job_type.aliases)


def of_data(whose: str, data: str) -> str:
    """Return the key of a job that is unique by its data, whatever their order."""
    canonical = json.dumps(json.loads(data), sort_keys=True)
    return of_text(whose, hashlib.sha256(canonical.encode()).hexdigest())


def of_call(
    whose: str,
    unique: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str:
    """Return the key that a function makes of a job's arguments, "" for none.

    Raises InvalidOption if it does not take them, or returns neither a text nor None.
    """
    try:
        text = unique(*args, **kwargs)
    except TypeError as error:
        if _takes(unique, args, kwargs):
            raise
        raise InvalidOption(
            f"{whose}: unique={unique!r} is called with the job's arguments, and does "
            f"not take them: {error}. Give it the parameters of the job"
        ) from error
    if text is None:
        return ""
    if isinstance(text, str) and text:
        return of_text(whose, text)
    raise InvalidOption(
        f"{whose}: unique={unique!r} must return a text, or None for a job that is not "
        f"unique, and returned {text!r}"
    )


def _takes(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True
