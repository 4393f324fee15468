"""`manage.py qless_status`: shows queues, failures and workers."""

from __future__ import annotations

import sys
from typing import Any

from django_qless.core.exceptions import QlessError
from django_qless.management.base import QlessCommand
from django_qless.management.server_findings import PROBLEM
from django_qless.management.status import status_text
from django_qless.operations.status import NamespaceStatus, status_data


class Command(QlessCommand):
    help = (
        "Shows the queues with their counts and lag, failures and workers. Exit code 1 "
        "if the server does not answer."
    )

    def run(self, **options: Any) -> None:
        """Print the status, or the problem."""
        try:
            status = NamespaceStatus.read(self.client)
        except QlessError as error:
            if self.as_json:
                self.print_json({"problem": str(error)})
            else:
                self.stderr.write(f"{PROBLEM} {self.alias}: {error}")
            sys.exit(1)
        if self.as_json:
            self.print_json(status_data(status, self.alias))
        else:
            self.print(status_text(status))
