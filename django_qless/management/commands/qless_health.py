"""`manage.py qless_health`: checks that a worker is alive, and ready.

`python -m django_qless.health` does the same without loading the project.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django_qless.health import MAX_AGE, Unwell, examine
from django_qless.management.base import UncheckedCommand, positive_seconds

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


class Command(UncheckedCommand):
    help = (
        "Checks that the worker that writes a health file is alive: its loop turns. The "
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
            help="check also that it takes jobs and that the server answers it",
        )
        parser.add_argument(
            "--max-age",
            type=positive_seconds,
            default=MAX_AGE,
            metavar="SECONDS",
            help="the age at which a sign of life is too old (default: %(default)g)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path, ready = options["health_file"], options["ready"]
        try:
            text = examine(path, ready=ready, max_age=options["max_age"])
        except Unwell as reason:
            self.stdout.write(str(reason))
            sys.exit(1)
        if options["verbosity"]:
            self.stdout.write(text)
