"""`manage.py qless_config`: shows and sets the options of a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from django.core.management.base import CommandError

from django_qless.conf import routing
from django_qless.conf.config_sync import (
    applied_options,
    is_mark,
    operator_overrides,
    origin_of,
    reset,
    sync_config,
)
from django_qless.core.options import OPTIONS, known
from django_qless.job_types.discovery import discover
from django_qless.management.base import SubcommandsCommand
from django_qless.management.output import table

#: The help of arguments that are options.
OPTION = "such as jobs-history; that of a queue is mail-heartbeat"

#: What has set an option, in words.
SET_BY = {"operator": "operator", "settings": "QLESS", "default": ""}


class Command(SubcommandsCommand):
    help = "Shows and sets the options of a namespace."

    def add_subcommands(self) -> None:
        self.add("list", self.list, "all options: value, default, who set it, meaning")
        self.add("get", self.get, "print an option").add_argument("option", help=OPTION)
        change = self.add("set", self.set, "set an option; it overrides the settings")
        change.add_argument("option", help=OPTION)
        change.add_argument("value", help="its new value")
        change.add_argument("--new", action="store_true", help="allow unknown options")
        unset = self.add("unset", self.unset, "return options to the core's defaults")
        unset.add_argument("options", nargs="+", metavar="option", help=OPTION)
        reset = self.add("reset", self.reset, "return options to the setting QLESS")
        reset.add_argument("options", nargs="*", metavar="option", help=OPTION)
        reset.add_argument("--all", action="store_true", help="all that operators set")
        self.add("sync", self.sync, "apply what the code declares, without waiting")

    def list(self, **options: Any) -> None:
        """Print all options."""
        rows = self.rows()
        if self.as_json:
            self.print_json(rows)
        else:
            self.print(table([*rows[0]], [[*map(str, row.values())] for row in rows]))

    def rows(self) -> Sequence[dict[str, Any]]:
        """Return each option that is known or set, as cells of a table by column."""
        values = self.client.config_all()
        applied = applied_options(values)
        names = [option.name for option in OPTIONS]
        names += sorted(name for name in set(values) - set(names) if not is_mark(name))
        rows = []
        for name in names:
            option = known(name)
            default = option.default if option else ""
            rows.append(
                {
                    "option": name,
                    "value": values.get(name, default),
                    "default": default,
                    "set by": SET_BY[origin_of(name, values, applied)],
                    "meaning": option.meaning if option else "",
                }
            )
        return rows

    def get(self, *, option: str, **options: Any) -> None:
        """Print an option."""
        value = self.client.config_get(option)
        if value is None and (described := known(option)):
            value = described.default
        if value is None:
            raise CommandError(f"There is no option {option!r}{suggestion(option)}")
        self.print_json(value) if self.as_json else self.print(str(value))

    def set(self, *, option: str, value: str, new: bool, **options: Any) -> None:
        """Set an option."""
        if known(option) is None and not new:
            raise CommandError(
                f"There is no option {option!r}{suggestion(option)}; add --new to set it "
                "anyway"
            )
        routing.check_option(self.alias, option, value)
        self.client.config_set(option, value)
        self.report(f"{option} is {value}")

    def unset(self, *, options: Sequence[str], **others: Any) -> None:
        """Return options to the core's defaults."""
        for name in options:
            self.client.config_unset(name)
        self.print_values(options)

    def reset(self, *, options: Sequence[str], **others: Any) -> None:
        """Return options to the setting QLESS."""
        if bool(options) == others["all"]:
            raise CommandError("Give the names of options, or --all")
        names = options or sorted(operator_overrides(self.alias))
        if not names:
            self.report("nothing to do: operators have set no option")
            return
        discover()
        reset(names, self.alias)
        self.print_values(names)

    def sync(self, **options: Any) -> None:
        """Apply what the code declares."""
        discover()
        done = sync_config(self.alias, anyway=True)
        if self.as_json:
            self.print_json(done._asdict())
            return
        for option, value in done.set.items():
            self.print(f"set: {option} is {value}")
        for option in done.unset:
            self.print(f"unset: {option}")
        for option, value in done.kept.items():
            self.print(f"kept as an operator set it (see reset): {option} is {value}")

    def print_values(self, names: Sequence[str]) -> None:
        """Print options that were changed."""
        for name in names:
            self.report(f"{name} is {self.client.config_get(name) or 'unset'}")


def suggestion(name: str) -> str:
    """Return a hint at the option with the most similar name, or nothing."""
    found = get_close_matches(name, [option.name for option in OPTIONS], n=1)
    return f" (did you mean {found[0]}?)" if found else ""
