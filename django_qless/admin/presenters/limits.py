"""What limits a queue: its three options, and where each value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin.presenters.options import OptionRow, option_row

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

LABELS: dict[str, _StrOrPromise] = {
    "heartbeat": gettext_lazy("Heartbeat, seconds"),
    "max-concurrency": gettext_lazy("Max. concurrency, jobs"),
    "weight": gettext_lazy("Weight"),
}


@dataclass(frozen=True)
class Limit:
    """One of the three options of a queue."""

    #: "heartbeat", "max-concurrency" or "weight".
    key: str
    label: str
    option: OptionRow
    #: The value in force: the queue's own, else the one that holds for all queues.
    value: str
    #: The value without one of the queue's own: declared, or the default.
    usual: str

    @property
    def is_set(self) -> bool:
        """Whether the queue has a value of its own."""
        return self.option.by != "default"

    @property
    def words(self) -> str:
        """The value in force, and "any number" if that is what it means."""
        return self._in_words(self.value)

    @property
    def usual_words(self) -> str:
        """The same for the value without one of the queue's own."""
        return self._in_words(self.usual)

    @property
    def field(self) -> str:
        """The name of the form's field."""
        return self.key.replace("-", "_")

    def _in_words(self, value: str) -> str:
        is_any = self.key == "max-concurrency" and value == "0"
        return _("any number") if is_any else value


def limits(
    queue: str, values: Mapping[str, Any], declared: Mapping[str, str]
) -> list[Limit]:
    """Return what limits a queue; `values` is what config_all() returns."""
    found = []
    for key, label in LABELS.items():
        row = option_row(f"{queue}-{key}", values, declared)
        assert row is not None  # The core knows these of any queue.
        default = row.default or str(values.get(key, ""))
        usual = default if row.declared is None else row.declared
        value = row.value or default
        found.append(Limit(key, str(label), row, value, usual))
    return found
