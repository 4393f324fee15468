"""What TASKS may say in the OPTIONS of a QlessBackend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from django_qless.exceptions import InvalidOption
from django_qless.options import Options

# Options of jobs that may be given for all Tasks of a backend.
DEFAULTS = frozenset(
    {
        *("retries", "backoff", "retry_on", "fail_on", "timeout", "hard_timeout"),
        *("middleware", "tags", "expires", "result_ttl"),
    }
)
OURS = frozenset({"alias", "enqueue_on_commit", "TASK_MODULES"})
KNOWN = DEFAULTS | OURS


class Problem(NamedTuple):
    """Something wrong in OPTIONS: what it is, and the remedy."""

    text: str
    hint: str


class BackendOptions:
    """OPTIONS of one backend, read; what is wrong with them is kept, not raised.

    A backend is made when a module with Tasks is imported. If that failed, so would the
    system check that is to say why.
    """

    def __init__(self, options: Any) -> None:
        self.problems: list[Problem] = []
        if not isinstance(options, Mapping):
            self.problems.append(
                Problem(
                    f"OPTIONS must be a dict, not {options!r}.", 'Write "OPTIONS": {}.'
                )
            )
            options = {}
        self.problems += _unknown(options)
        self.alias: str = options.get("alias", "default")
        self.modules = self._modules(options.get("TASK_MODULES", ()))
        self.defaults = self._defaults(options)

    def _modules(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, (list, tuple, set, frozenset)) and all(
            isinstance(each, str) and each for each in value
        ):
            return tuple(value)
        self.problems.append(
            Problem(
                f"TASK_MODULES must be a list of modules, not {value!r}.",
                'For example ["shop_plugins.tasks"]; what lies inside counts, too.',
            )
        )
        return ()

    def _defaults(self, options: Mapping[str, Any]) -> Options:
        """Return the options of jobs that all Tasks of the backend begin with."""
        # Django's contract runs a Task once, and at once.
        defaults = Options(retries=0, on_commit=False)
        given = {name: options[name] for name in DEFAULTS & options.keys()}
        if "alias" in options:
            given["alias"] = options["alias"]
        if "enqueue_on_commit" in options:
            given["on_commit"] = options["enqueue_on_commit"]
        for name, value in given.items():
            try:
                defaults = defaults.with_checked("OPTIONS", **{name: value})
            except InvalidOption as error:
                text = str(error).replace("on_commit", "enqueue_on_commit")
                self.problems.append(Problem(text, "See the options of @job."))
        try:
            return defaults.changed("OPTIONS")
        except InvalidOption as error:
            self.problems.append(Problem(str(error), "See the options of @job."))
            return Options(retries=0, on_commit=False)


def _unknown(options: Mapping[str, Any]) -> Iterator[Problem]:
    for name in options:
        if name not in KNOWN:
            near = get_close_matches(str(name), KNOWN, n=1)
            yield Problem(
                f"OPTIONS: there is no option {name!r}.",
                f"Did you mean {near[0]!r}?"
                if near
                else f"The options are {', '.join(sorted(KNOWN))}.",
            )
