"""Options of a namespace, and limits of a queue, as pages show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_qless.admin import formatting
from django_qless.conf.config_sync import applied_options, is_mark, origin_of
from django_qless.core.options import OF_A_QUEUE, OF_A_TYPE, OPTIONS, Option, known

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

MEANINGS: dict[str, _StrOrPromise] = {
    "heartbeat": _(
        "Seconds for which a job stays with a worker without a heartbeat. Workers renew "
        "it all the time; after it another worker may take the job."
    ),
    "grace-period": _(
        "Seconds that a worker that has lost a job has to stop it before another one "
        "starts it."
    ),
    "jobs-history": _("Seconds for which completed jobs are kept."),
    "jobs-history-count": _("Completed jobs that are kept, at most."),
    "canceled-history": _("Seconds for which records of canceled jobs are kept."),
    "max-job-history": _("Entries that the history of one job keeps."),
    "stats-history": _("Days for which the statistics of queues are kept."),
    "histogram-history": _("Days for which their histograms are kept."),
    "max-worker-age": _("Seconds after which a silent worker is forgotten."),
    "application": _("A name for this namespace."),
}

QUEUE_MEANINGS: dict[str, _StrOrPromise] = {
    "heartbeat": _(
        "Seconds for which a job of this queue stays with a worker without a heartbeat."
    ),
    "max-concurrency": _("Jobs of this queue that may run at once; 0: any number."),
    "rate": _(
        "How often jobs of this queue may start, for example 100/m (s, m, h or d); 0: any "
        "number."
    ),
    "weight": _(
        "Share of this queue, beside the others, for workers that choose queues by "
        "lottery; 0: never."
    ),
    "failed-queue": _(
        "The queue in which jobs of this one go on that have failed for good."
    ),
}

TYPE_MEANINGS: dict[str, _StrOrPromise] = {
    "max-concurrency-of-type": _(
        "Jobs of this type that may run at once, in all queues; 0: any number."
    ),
    "rate-of-type": _(
        "How often jobs of this type may start, as 100/m; 0: any number."
    ),
    "max-concurrency-per-key": _(
        "Jobs of one key of this type that may run at once; 0: any number."
    ),
    "rate-per-key": _(
        "How often jobs of one key of this type may start, as 10/s; 0: any number."
    ),
}

IN_SECONDS = (
    *("heartbeat", "grace-period", "jobs-history", "canceled-history"),
    "max-worker-age",
)
"""Options in seconds, which are also shown as durations."""


@dataclass(frozen=True)
class OptionRow:
    """An option as the list and its own page show it."""

    name: str
    meaning: str
    value: str
    """The value in force."""
    default: str
    """The core's default; "" for options that it does not know."""
    declared: str | None
    """The value in the setting QLESS."""
    by: str
    """Who has set it: "operator", "settings" or "default"."""
    queue: str | None
    """The queue, for an option of one queue."""
    span: str
    """Seconds as a duration, "" for anything else."""

    @property
    def is_known(self) -> bool:
        """True if it is one of the core's; others belong to the project."""
        return known(self.name) is not None


def option_rows(
    values: Mapping[str, Any], declared: Mapping[str, str]
) -> Iterator[OptionRow]:
    """Yield the core's options, then those of queues and free ones that are set.

    `values`: the reply of config_all(). `declared`: the options in the setting QLESS.
    """
    names = [option.name for option in OPTIONS]
    others = {name for name in {*values, *declared} - {*names} if not is_mark(name)}
    ours = applied_options(values)
    for name in [*names, *sorted(others)]:
        yield _row(name, values, declared, ours)


def option_row(
    name: str, values: Mapping[str, Any], declared: Mapping[str, str]
) -> OptionRow | None:
    """Return an option, or None if it is unset and unknown to the core."""
    if is_mark(name) or not (known(name) or name in values or name in declared):
        return None
    return _row(name, values, declared, applied_options(values))


def split_queue_option(name: str) -> tuple[str, Option] | None:
    """Return the queue and the option of `<queue>-<option>`; None for other names."""
    if any(option.name == name for option in OPTIONS):
        return None
    for option in OF_A_QUEUE:
        queue = name.removesuffix(f"-{option.name}")
        if queue and queue != name:
            return queue, option
    return None


def type_option(name: str) -> str:
    """Return the option of `<type>-<option>`; "" for other names."""
    return next((o.name for o in OF_A_TYPE if name.endswith(f"-{o.name}")), "")


def _row(
    name: str,
    values: Mapping[str, Any],
    declared: Mapping[str, str],
    ours: Mapping[str, str],
) -> OptionRow:
    option, of_queue = known(name), split_queue_option(name)
    default = "" if option is None else str(option.default)
    value = values.get(name)
    text = default if value is None else str(value)
    return OptionRow(
        name=name,
        meaning=_meaning(name, option, of_queue),
        value=text,
        default=default,
        declared=declared.get(name),
        by=origin_of(name, values, ours),
        queue=of_queue[0] if of_queue else None,
        span=_span(of_queue[1].name if of_queue else name, text),
    )


def _meaning(
    name: str, option: Option | None, of_queue: tuple[str, Option] | None
) -> str:
    if of_queue is not None and of_queue[1].name in QUEUE_MEANINGS:
        return str(QUEUE_MEANINGS[of_queue[1].name])
    if option is None:
        return str(_("An option of the project; the core does not know it."))
    if name in MEANINGS:
        return str(MEANINGS[name])
    meaning = TYPE_MEANINGS.get(type_option(name))
    return option.meaning if meaning is None else str(meaning)


def _span(name: str, value: str) -> str:
    if name not in IN_SECONDS:
        return ""
    try:
        seconds = float(value)
    except ValueError:
        return ""
    return formatting.span(seconds) if 60 <= seconds < 1e12 else ""


LIMIT_LABELS: dict[str, _StrOrPromise] = {
    "heartbeat": _("Heartbeat, seconds"),
    "max-concurrency": _("Max. concurrency, jobs"),
    "rate": _("Rate, starts per time"),
    "weight": _("Weight"),
}


@dataclass(frozen=True)
class Limit:
    """A limit of a queue: one of its options."""

    key: str
    """"heartbeat", "max-concurrency", "rate" or "weight"."""
    label: str
    option: OptionRow
    value: str
    """The value in force: the queue's own, else that for all queues."""
    usual: str
    """The value without one of the queue's own: declared, or the default."""

    @property
    def is_set(self) -> bool:
        """True if the queue has its own value."""
        return self.option.by != "default"

    @property
    def words(self) -> str:
        """The value in force as text; "any number" for no limit."""
        return self._in_words(self.value)

    @property
    def usual_words(self) -> str:
        """The usual value as text; "any number" for no limit."""
        return self._in_words(self.usual)

    @property
    def field(self) -> str:
        """The name of the form's field."""
        return self.key.replace("-", "_")

    def _in_words(self, value: str) -> str:
        is_any = self.key in ("max-concurrency", "rate") and value == "0"
        return gettext("any number") if is_any else value


def limits(
    queue: str, values: Mapping[str, Any], declared: Mapping[str, str]
) -> list[Limit]:
    """Return the limits of a queue; `values` is the reply of config_all()."""
    found = []
    for key, label in LIMIT_LABELS.items():
        row = option_row(f"{queue}-{key}", values, declared)
        assert row is not None  # The core knows these of any queue.
        default = row.default or str(values.get(key, ""))
        usual = default if row.declared is None else row.declared
        value = row.value or default
        found.append(Limit(key, str(label), row, value, usual))
    return found
