"""What the commands that look at a namespace have in common."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from django_qless.conf import DEFAULT_ALIAS
from django_qless.connections import connections
from django_qless.core.exceptions import QlessError

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

    from django_qless.core import Client

#: Said where nobody has to be asked.
NO_JOBS = "no jobs match: nothing to do"


class QlessCommand(BaseCommand):
    """A command on one alias: `client` is there, and its errors are for people."""

    requires_system_checks = []
    alias: str
    client: Client

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what all have: `--alias`, `--json`."""
        parser.add_argument(
            "--alias", default=DEFAULT_ALIAS, help="which alias of the setting QLESS"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Run `act`, with a client; turn what goes wrong into a CommandError."""
        self.alias = options["alias"]
        try:
            self.client = connections[self.alias]
            self.act(**options)
        except (QlessError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error
        return None

    def act(self, **options: Any) -> None:
        """Do what the command is for."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Print a line."""
        self.stdout.write(text)

    def print_json(self, data: object) -> None:
        """Print data as one line of JSON."""
        self.stdout.write(json.dumps(data, default=str, ensure_ascii=False))

    def confirm(self, question: str, *, asked: bool) -> None:
        """Go on if a person says yes, or if nobody is to be asked; else CommandError."""
        if not asked:
            return
        try:
            answer = input(f"{question} [y/N] ")
        except EOFError:
            raise CommandError(
                "Nobody is there to confirm it, and nothing was changed: --no-input "
                "does it without being asked."
            ) from None
        if answer.strip().lower() not in ("y", "yes"):
            raise CommandError("Nothing was changed.")


def add_no_input(parser: Any) -> None:
    """Add `--no-input`, under the name that Django's commands have."""
    parser.add_argument(
        "--no-input",
        "--noinput",
        action="store_false",
        dest="interactive",
        help="do not ask for confirmation",
    )
