"""`manage.py qless_doctor`: is everything fit, and what is to be done if not?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django_qless.management.base import QlessCommand
from django_qless.management.doctor import PROBLEM, examine

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


class Command(QlessCommand):
    help = (
        "Looks at the settings, the server, the queues, the workers and the records of "
        "a namespace, and says what is wrong and what to do. Exit code 1 if there is a "
        "problem."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--no-audit",
            action="store_false",
            dest="audit",
            help="do not check the records, which takes long where there are many",
        )
        parser.add_argument(
            "--clean",
            action="store_true",
            help="remove the libraries of functions that other versions of this "
            "package have left on the server; who still runs one loads it again",
        )

    def act(self, **options: Any) -> None:
        found = examine(
            self.alias, self.client, audited=options["audit"], cleans=options["clean"]
        )
        findings = list(found)
        if options["json"]:
            self.print_json([finding._asdict() for finding in findings])
        else:
            for finding in findings:
                self.say(f"{finding.level:8}{finding.about:12}{finding.text}")
        if any(finding.level == PROBLEM for finding in findings):
            sys.exit(1)
