"""`manage.py qless_status`: shows queues, failures and workers."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

from django_qless.core.exceptions import ConnectionLost, QlessError
from django_qless.management.base import QlessCommand, positive_seconds
from django_qless.management.output import format_time
from django_qless.management.server_findings import PROBLEM
from django_qless.management.status import status_text
from django_qless.operations.status import NamespaceStatus, status_data

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

HOME_AND_CLEAR = "\033[H\033[J"


class Command(QlessCommand):
    help = (
        "Shows the queues with their counts and lag, failures and workers. Exit code 1 "
        "if the server does not answer."
    )

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
        status = NamespaceStatus.read(self.client)
        if self.as_json:
            self.print_json(status_data(status, self.alias))
        elif again and self.stdout.isatty():
            head = f"{self.alias}, {format_time(status.now)}"
            self.print(f"{HOME_AND_CLEAR}{head}\n\n{status_text(status)}")
        else:
            self.print(status_text(status) + ("\n" if again else ""))
