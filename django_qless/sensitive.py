"""Which values of a call nobody is to see, worked out from the option `sensitive`.

    @job(sensitive="password")               the argument of this parameter
    @job(sensitive=["card", "return"])       "return" is the result
    @job(sensitive=True)                     all arguments, and the result

A job carries in its envelope where these values are, so that they stay hidden where its
code is not known: `"s": [1, "card", "return"]`, positions, keywords and the words below,
or `"s": true`. Readers that know nothing of that pass over it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from inspect import Parameter
from typing import Any

from django_qless.exceptions import InvalidOption
from django_qless.registry import Binding, JobType

#: The result, among the names of parameters; as a keyword it can be none of them.
RETURN = "return"

#: The row on which a job runs, among positions and keywords.
ROW = ""

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Sensitive:
    """What of the calls of one job is to be hidden."""

    __slots__ = ("_parameters", "_skipped", "everything", "names", "result")

    def __init__(
        self, names: Sequence[str] | bool, function: Callable[..., Any], skipped: int
    ) -> None:
        """`skipped` is how many parameters, the first, are none of the caller's."""
        self.everything = names is True
        self.names = frozenset() if isinstance(names, bool) else frozenset(names)
        self.result = self.everything or RETURN in self.names
        self._parameters = parameters_of(function)
        self._skipped = self._parameters[:skipped]

    def places(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Iterator[tuple[int | str, str]]:
        """Yield where in a call sensitive values are, and what to call each."""
        parameters = self._parameters[len(self._skipped) :]
        plain = [each.name for each in parameters if each.kind in _POSITIONAL]
        rest = {each.kind: each.name for each in parameters}
        for at in range(len(args)):
            # Too many, too, belong to what takes all: better hidden than shown.
            name = plain[at] if at < len(plain) else rest.get(Parameter.VAR_POSITIONAL)
            if self._hides(name):
                yield at, name or f"argument {at + 1}"
        named = {each.name for each in parameters}
        all_others = self._hides(rest.get(Parameter.VAR_KEYWORD))
        for keyword in kwargs:
            if self._hides(keyword) or (keyword not in named and all_others):
                yield keyword, keyword
        for each in self._skipped:
            if each.name in self.names:
                yield ROW, each.name

    def mark(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] = {}) -> str:
        """Return the envelope's part that says where the values of a call are."""
        if self.everything:
            return ',"s":true'
        places = [place for place, _ in self.places(args, kwargs)]
        if self.result:
            places.append(RETURN)
        if not places:
            return ""
        return f',"s":{json.dumps(places, ensure_ascii=False, separators=(",", ":"))}'

    def _hides(self, name: str | None) -> bool:
        return self.everything or name in self.names


@lru_cache(maxsize=1000)
def sensitive_of(job_type: JobType) -> Sensitive | None:
    """Return what of a job's calls is to be hidden, None for nothing."""
    names = job_type.options.sensitive
    if not names:
        return None
    skipped = job_type.on_something or job_type.has_context
    return Sensitive(names, job_type.function, int(skipped))


def mark_of(job_type: JobType) -> str:
    """Return the envelope's part for a job that is put without arguments."""
    found = sensitive_of(job_type) if job_type.options.sensitive else None
    return found.mark() if found and job_type.binding is not Binding.CLASS else ""


def must_name_parameters(
    whose: str, names: Sequence[str] | bool, function: Callable[..., Any]
) -> None:
    """Raise InvalidOption if a name in `sensitive` is that of no parameter.

    A class job has none: there the names are members of its data.
    """
    if isinstance(names, bool):
        return
    if inspect.isclass(function):
        if RETURN in names:
            raise InvalidOption(
                f'{whose}: sensitive="return": a class job returns nothing. Name '
                "members of its data, or say sensitive=True for all of them."
            )
        return
    parameters = parameters_of(function)
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return
    known = [each.name for each in parameters]
    for name in names:
        if name not in known and name != RETURN:
            has = f"has {', '.join(known)}" if known else "has none"
            raise InvalidOption(
                f"{whose}: sensitive names {name!r}, and there is no such parameter: it "
                f'{has}; "return" is the result, and True stands for everything.'
            )


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function, none if it does not tell."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
