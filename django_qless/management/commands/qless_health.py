"""`manage.py qless_health`: does a worker live, does it work?

`python -m django_qless.health` tells the same without loading the project.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand

from django_qless.health import MAX_AGE, Unwell, examine
from django_qless.management.numbers import some_seconds

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


class Command(BaseCommand):
    requires_system_checks = []
    help = (
        "Says whether the worker that writes a health file lives: its loop turns. The "
        "exit code is 0 or 1. As a probe, `python -m django_qless.health PATH` is "
        "cheaper: it does not load the project."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--health-file",
            required=True,
            metavar="PATH",
            help="the --health-file of the worker",
        )
        parser.add_argument(
            "--ready",
            action="store_true",
            help="whether it works as well: it takes jobs, and the server has answered",
        )
        parser.add_argument(
            "--max-age",
            type=some_seconds,
            default=MAX_AGE,
            metavar="SECONDS",
            help="for how long a sign of life is good (default: %(default)g)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path, ready = options["health_file"], options["ready"]
        try:
            words = examine(path, ready=ready, max_age=options["max_age"])
        except Unwell as why:
            self.stdout.write(str(why))
            sys.exit(1)
        self.stdout.write(words)
