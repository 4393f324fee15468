"""`manage.py qless_status`: shows queues, failures and workers."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless.core.exceptions import ConnectionLost, QlessError
from django_qless.management.base import QlessCommand, positive_seconds
from django_qless.management.output import format_time
from django_qless.management.server_findings import PROBLEM
from django_qless.management.status import split_table, status_text
from django_qless.operations.status import NamespaceStatus, status_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.core.management.base import CommandParser

HOME_AND_CLEAR = "\033[H\033[J"


class Command(QlessCommand):
    help = (
        "Shows the queues with their counts and lag, failures and workers. Exit code 1 "
        "if the server does not answer."
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: What was shown last, by namespace.
        self.statuses: dict[str, NamespaceStatus] = {}

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--watch",
            nargs="?",
            type=positive_seconds,
            const=2.0,
            metavar="SECONDS",
            help="repeat it every SECONDS (default: 2) until Ctrl-C",
        )

    def run_on_each(self, parts: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Show several namespaces, again and again if that is wanted."""
        watch = parts[0][1]["watch"]
        once = [(name, {**options, "watch": None}) for name, options in parts]
        if watch is None:
            self.show_each(once)
            return
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                if not self.as_json and self.stdout.isatty():
                    self.print(HOME_AND_CLEAR)
                with contextlib.suppress(CommandError):  # It may come back.
                    self.show_each(once)
                time.sleep(watch)

    def show_each(self, parts: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Show several namespaces, and then each queue that is split as one."""
        self.statuses.clear()
        try:
            super().run_on_each(parts)
        finally:
            if not self.as_json and (text := split_table(self.statuses)):
                self.print(text)

    def run(self, *, watch: float | None, **options: Any) -> None:
        if watch is None:
            try:
                self.show()
            except QlessError as error:
                if self.as_json:
                    self.print_json({"problem": str(error)})
                else:
                    self.stderr.write(f"{PROBLEM} {self.alias}: {error}")
                sys.exit(1)
            return
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                try:
                    self.show(again=True)
                except ConnectionLost as error:
                    self.stderr.write(str(error))  # It may come back.
                time.sleep(watch)

    def show(self, *, again: bool = False) -> None:
        """Print the status; in place of the last one on a terminal."""
        status = self.statuses[self.alias] = NamespaceStatus.read(self.client)
        if self.as_json:
            self.print_json(status_data(status, self.alias))
        elif again and self.stdout.isatty():
            head = f"{self.alias}, {format_time(status.now)}"
            self.print(f"{HOME_AND_CLEAR}{head}\n\n{status_text(status)}")
        else:
            self.print(status_text(status) + ("\n" if again else ""))
