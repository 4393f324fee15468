"""Limit keys: for which key and which tenant a job counts, by the options
`concurrency_key` and `fair_by`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Model

from django_qless.exceptions import InvalidOption
from django_qless.job_types.option_checks import MOST_NAME_BYTES
from django_qless.job_types.signature import CallSignature
from django_qless.serialization.derived_types import name_text

if TYPE_CHECKING:
    from django_qless.job_types.options import Options


class LimitKeys(NamedTuple):
    """The keys of one job; None where it has none."""

    limit_key: str | None = None
    fair_by: str | None = None


NO_KEYS = LimitKeys()


def has_keys(options: Options) -> bool:
    """Return whether jobs with these options have such keys."""
    return options.concurrency_key is not None or options.fair_by is not None


def limit_keys(
    whose: str,
    options: Options,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    skip_first: bool = False,
) -> LimitKeys:
    """Return the keys of a call; the arguments are those that `function` gets,
    apart from its first if `skip_first` says so.

    Raises InvalidOption if a function that makes a key raises, or makes something else.
    """
    if not has_keys(options):
        return NO_KEYS
    signature = CallSignature.of(function, skip_first=skip_first)
    return LimitKeys(
        *(
            _key(whose, name, getattr(options, name), signature, args, kwargs)
            for name in ("concurrency_key", "fair_by")
        )
    )


def _key(
    whose: str,
    option: str,
    source: Any,
    signature: CallSignature,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str | None:
    if source is None:
        return None
    if isinstance(source, str):
        value = signature.argument(source, tuple(args), dict(kwargs))
    else:
        try:
            value = source(*args, **kwargs)
        except Exception as error:
            raise InvalidOption(
                f"{whose}: {option}={source!r} is called with the job's arguments and "
                f"raised {type(error).__name__}: {error}. Let it return a text, a number, "
                "or None for a job without a key"
            ) from error
    return _text(whose, option, source, value)


def _text(whose: str, option: str, source: Any, value: Any) -> str | None:
    if value is None:
        return None
    key = value.pk if isinstance(value, Model) else value
    is_key = isinstance(key, (str, int)) or type(key).__name__ == "UUID"
    text = name_text(key) if is_key else ""
    if not text or isinstance(key, bool):
        raise InvalidOption(
            f"{whose}: {option}={source!r} must give a text that is not empty, a whole "
            f"number, a UUID, a row, or None for a job without a key, not {value!r:.100}"
        )
    if len(text.encode()) > MOST_NAME_BYTES:
        return hashlib.sha256(text.encode()).hexdigest()
    return text
