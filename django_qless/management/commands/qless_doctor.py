"""`manage.py qless_doctor`: finds problems, and names their remedies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django_qless.management.audit import audited
from django_qless.management.base import QlessCommand
from django_qless.management.doctor import examine
from django_qless.management.server_findings import FINE, PROBLEM

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


class Command(QlessCommand):
    help = (
        "Checks the settings, the server, the queues and the workers of a namespace, and "
        "prints problems with their remedies. Exit code 1 if there is a problem."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--clean",
            action="store_true",
            help="remove libraries of functions that other versions of this package have "
            "left on the server; a process that still needs one loads it again",
        )

        parser.add_argument(
            "--audit",
            action="store_true",
            help="read all records of the namespace, 200 jobs at a time, and check that "
            "they agree with each other",
        )

    def run(self, *, clean: bool, audit: bool, **options: Any) -> None:
        findings = list(examine(self.alias, self.client, clean=clean))
        if audit:
            findings += audited(self.client)
        if self.as_json:
            self.print_json([finding._asdict() for finding in findings])
        else:
            for finding in findings:
                # With -v 0, what is fine is left out.
                if not self.verbosity and finding.level == FINE:
                    continue
                self.print(f"{finding.level:8}{finding.about:12}{finding.text}")
        if any(finding.level == PROBLEM for finding in findings):
            sys.exit(1)
