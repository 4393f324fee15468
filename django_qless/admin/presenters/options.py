"""Options of a namespace as pages show them: meaning, default, value, and who has set it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

from django_qless.admin import words
from django_qless.core.options import OF_A_QUEUE, OPTIONS, Option, known
from django_qless.declared import MARKER

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

#: What each option means, for who has to decide about it.
MEANINGS: dict[str, _StrOrPromise] = {
    "heartbeat": _(
        "How many seconds a job stays with a worker that gives no sign of life. Workers "
        "renew it all the time; after it another worker may take the job."
    ),
    "grace-period": _(
        "How many seconds a worker that has lost a job has to end it, before another one "
        "begins it."
    ),
    "jobs-history": _("For how many seconds completed jobs are kept."),
    "jobs-history-count": _("How many completed jobs are kept at most."),
    "results-count": _(
        "How many results are kept at most, beyond those of the last five minutes. The "
        "oldest go first."
    ),
    "results-bytes": _(
        "How many bytes of results are kept at most, beyond those of the last five "
        "minutes. The oldest go first."
    ),
    "canceled-history": _(
        "For how many seconds it is remembered what became of canceled jobs."
    ),
    "canceled-history-count": _("How many canceled jobs are remembered at most."),
    "max-job-history": _("How many entries the history of one job keeps."),
    "stats-history": _("For how many days the statistics of queues are kept."),
    "histogram-history": _("For how many days their histograms are kept."),
    "max-worker-age": _("After how many seconds a silent worker is forgotten."),
    "application": _("A name for this namespace."),
}

#: The same for options of one queue; they stand behind its name and a hyphen.
MEANINGS_OF_A_QUEUE: dict[str, _StrOrPromise] = {
    "heartbeat": _(
        "How many seconds a job of this queue stays with a worker that gives no sign of "
        "life."
    ),
    "max-concurrency": _("How many jobs of this queue may run at once; 0: any number."),
    "weight": _(
        "How often a worker that draws lots among its queues draws this one, beside the "
        "others; 0: never."
    ),
}

#: Options that count seconds: what they come to is shown beside them.
IN_SECONDS = (
    *("heartbeat", "grace-period", "jobs-history", "canceled-history"),
    "max-worker-age",
)


@dataclass(frozen=True)
class OptionRow:
    """An option as a line of the list, and its page, show it."""

    name: str
    meaning: str
    #: As it is in force now.
    value: str
    #: What the core does if nobody says anything; "" for options it does not know.
    default: str
    #: What the setting QLESS declares, or None.
    declared: str | None
    #: "operator", "settings" or "default".
    by: str
    #: The queue that it is of, or None.
    queue: str | None
    #: Seconds in words, "" for anything else.
    span: str

    @property
    def is_known(self) -> bool:
        """Whether the core knows it; others are free for the project to use."""
        return known(self.name) is not None


def option_rows(
    values: Mapping[str, Any], declared: Mapping[str, str]
) -> Iterator[OptionRow]:
    """Yield the core's options, then those of queues and free ones that are set.

    `values`: what config_all() returns. `declared`: what the setting QLESS declares.
    """
    names = [option.name for option in OPTIONS]
    others = (set(values) | set(declared)) - {MARKER, *names}
    ours = _applied(values)
    for name in [*names, *sorted(others)]:
        yield _row(name, values, declared, ours)


def option_row(
    name: str, values: Mapping[str, Any], declared: Mapping[str, str]
) -> OptionRow | None:
    """Return one option, or None if it is neither set nor one that the core knows."""
    if name == MARKER or not (known(name) or name in values or name in declared):
        return None
    return _row(name, values, declared, _applied(values))


def queue_of(name: str) -> tuple[str, Option] | None:
    """Return the queue that an option is of, and what it is there; None for others."""
    if any(option.name == name for option in OPTIONS):
        return None
    for option in OF_A_QUEUE:
        queue = name.removesuffix(f"-{option.name}")
        if queue and queue != name:
            return queue, option
    return None


def _applied(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the options, and their values, that workers have set as QLESS declares."""
    try:
        applied = json.loads(values.get(MARKER) or "{}")
    except ValueError:
        return {}
    return applied if isinstance(applied, dict) else {}


def _row(
    name: str,
    values: Mapping[str, Any],
    declared: Mapping[str, str],
    ours: Mapping[str, str],
) -> OptionRow:
    option, of_queue = known(name), queue_of(name)
    default = "" if option is None else str(option.default)
    # What is set is text; the core's defaults are numbers, except for one.
    value = values.get(name)
    is_set = isinstance(value, str) and (option is None or value != option.default)
    text = default if value is None else str(value)
    return OptionRow(
        name=name,
        meaning=_meaning(name, option, of_queue),
        value=text,
        default=default,
        declared=declared.get(name),
        by=_by(text, ours.get(name)) if is_set else "default",
        queue=of_queue[0] if of_queue else None,
        span=_span(of_queue[1].name if of_queue else name, text),
    )


def _by(value: str, ours: str | None) -> str:
    return "settings" if value == ours else "operator"


def _meaning(
    name: str, option: Option | None, of_queue: tuple[str, Option] | None
) -> str:
    if of_queue is not None:
        return str(MEANINGS_OF_A_QUEUE[of_queue[1].name])
    if option is None:
        return str(_("The core does not know it; it is the project's own."))
    return str(MEANINGS.get(name, option.meaning))


def _span(name: str, value: str) -> str:
    if name not in IN_SECONDS:
        return ""
    try:
        seconds = float(value)
    except ValueError:
        return ""
    return words.span(seconds) if 60 <= seconds < 1e12 else ""
