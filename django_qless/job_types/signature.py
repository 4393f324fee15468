"""The arguments that a job's function accepts, checked before it is enqueued."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from django_qless.job_types.options import hint_for_arguments

#: The kinds of parameters that take one positional argument.
POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


class CallSignature:
    """The parameters of a job's function, as its callers give them.

    Counting arguments nearly always decides, in a tenth of the time of binding.
    """

    __slots__ = ("_keywords", "_signature", "counts")

    def __init__(self, signature: inspect.Signature | None) -> None:
        self._signature = signature
        #: The numbers of positional arguments that are accepted alone.
        self.counts = range(0)  # counting never decides
        self._keywords: frozenset[str] = frozenset()
        parameters = list(signature.parameters.values()) if signature else []
        kinds = {parameter.kind for parameter in parameters}
        if signature is None or inspect.Parameter.VAR_POSITIONAL in kinds:
            return
        plain = [p for p in parameters if p.kind in POSITIONAL]
        keywords = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        if all(p.default is not inspect.Parameter.empty for p in keywords):
            least = sum(p.default is inspect.Parameter.empty for p in plain)
            self.counts = range(least, len(plain) + 1)
            self._keywords = frozenset(p.name for p in keywords)

    @classmethod
    def of(
        cls, function: Callable[..., Any], *, skip_first: bool = False
    ) -> CallSignature:
        """Return the signature; `skip_first` leaves out the row or the model."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return cls(None)
        if skip_first:
            parameters = list(signature.parameters.values())
            if parameters and parameters[0].kind in POSITIONAL:
                signature = signature.replace(parameters=parameters[1:])
        return cls(signature)

    def normalized(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the call in the form that all equal calls share.

        Arguments are positional where possible, and defaults are filled in.
        """
        if self._signature is None:
            return args, kwargs
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def argument(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a parameter gets in such a call; None if there is none."""
        if self._signature is None:
            return None
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments.get(name)

    def check(self, whose: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise TypeError if the function does not take these arguments."""
        if self._signature is None or (
            len(args) in self.counts and self._keywords.issuperset(kwargs)
        ):
            return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            hint = hint_for_arguments(kwargs.keys() - self._signature.parameters.keys())
            raise TypeError(f"{whose}{self._signature}: {error}{hint}") from None
