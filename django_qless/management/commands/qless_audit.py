"""`manage.py qless_audit`: are the records of a namespace as they must be?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless.management import numbers
from django_qless.management.audit import audit
from django_qless.management.base import QlessCommand
from django_qless.management.words import counted

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


class Command(QlessCommand):
    help = (
        "Checks the invariants of a namespace, a bounded number of jobs per call, and "
        "changes nothing. Exit code 1 if something is not as it must be."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--count",
            type=lambda text: numbers.whole(text, most=1000),
            default=250,
            help="jobs checked by one call (250): the server serves nobody else "
            "meanwhile",
        )

    def act(self, **options: Any) -> None:
        found = audit(self.client, options["count"])
        if options["json"]:
            self.print_json(found._asdict())
        else:
            self.say(
                f"{counted(found.checked, 'record')} checked in {counted(found.calls, 'call')}"
            )
            for words in found.violations:
                self.say(f"  {words}")
        if found.violations:
            raise CommandError(counted(len(found.violations), "violation"))
        if not options["json"]:
            self.say("all is as it must be")
