"""`manage.py qless_status`: what is in the queues."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

from django_qless.core.exceptions import ConnectionLost, QlessError
from django_qless.management import numbers
from django_qless.management.base import QlessCommand
from django_qless.management.doctor import PROBLEM
from django_qless.management.overview import Overview
from django_qless.management.words import moment

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

HOME_AND_CLEAR = "\033[H\033[J"


class Command(QlessCommand):
    help = (
        "Shows the queues with their counts and lag, failures and workers. Exit code 1 "
        "if the server cannot be asked."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--watch",
            nargs="?",
            type=numbers.some_seconds,
            const=2.0,
            metavar="SECONDS",
            help="show it again every so many seconds (2), until Ctrl-C",
        )

    def act(self, **options: Any) -> None:
        interval = options["watch"]
        if interval is None:
            try:
                return self.show(as_json=options["json"])
            except QlessError as error:
                return self.give_up(error, as_json=options["json"])
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                try:
                    self.show(as_json=options["json"], again=True)
                except ConnectionLost as error:
                    self.stderr.write(str(error))  # It may come back.
                time.sleep(interval)
        return None

    def give_up(self, error: QlessError, *, as_json: bool) -> None:
        """Report that the server cannot be asked, and end with exit code 1."""
        if as_json:
            self.print_json({"problem": str(error)})
        else:
            self.stderr.write(f"{PROBLEM} {self.alias}: {error}")
        sys.exit(1)

    def show(self, *, as_json: bool, again: bool = False) -> None:
        """Ask the server and print what it says; in place of the last, if there."""
        overview = Overview.of(self.client)
        if as_json:
            self.print_json(overview.as_data())
        elif again and self.stdout.isatty():
            head = f"{self.alias}, {moment(overview.now)}"
            self.say(f"{HOME_AND_CLEAR}{head}\n\n{overview.as_text()}")
        else:
            self.say(overview.as_text() + ("\n" if again else ""))
