"""`manage.py qless_audit`: checks the records of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless.management.base import QlessCommand, integer
from django_qless.management.output import counted
from django_qless.operations.audit import audit_namespace

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


class Command(QlessCommand):
    help = (
        "Checks the invariants of a namespace, a bounded number of jobs per call, and "
        "changes nothing. Exit code 1 if there are violations."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--count",
            type=integer(most=1000),
            default=250,
            help="jobs checked by one call (250): the server serves no other client "
            "meanwhile",
        )

    def run(self, *, count: int, **options: Any) -> None:
        report = audit_namespace(self.client, count)
        if self.as_json:
            self.print_json(report._asdict())
        else:
            calls = counted(report.calls, "call")
            self.report(f"{counted(report.checked, 'record')} checked in {calls}")
            for text in report.violations:
                self.print(f"  {text}")
        if report.violations:
            raise CommandError(counted(len(report.violations), "violation"))
        if not self.as_json:
            self.report("no violations")
