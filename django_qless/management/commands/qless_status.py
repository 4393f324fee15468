"""`manage.py qless_status`: what is in the queues."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from django_qless.connections import connections
from django_qless.core.exceptions import QlessError
from django_qless.management.overview import Overview

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


class Command(BaseCommand):
    requires_system_checks = []
    help = "Shows the queues with their counts and lag, failures and workers."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--alias", default="default", help="which alias of the setting QLESS"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            overview = Overview.of(connections[options["alias"]])
        except QlessError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(overview.as_data()))
        else:
            self.stdout.write(overview.as_text())
