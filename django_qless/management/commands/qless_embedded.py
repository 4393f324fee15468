"""`manage.py qless_embedded`: looks after the embedded development server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from django_qless import conf
from django_qless.servers import embedded

if TYPE_CHECKING:
    from pathlib import Path

    from django.core.management.base import CommandParser


class Command(BaseCommand):
    requires_system_checks = []
    help = "Shows or stops the embedded development server of an alias."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=("status", "stop"))
        parser.add_argument(
            "--alias", default="default", help="which alias of the setting QLESS"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        directory = folder_of(options["alias"])
        if options["action"] == "status":
            status = embedded.status(directory)
            state = f"running at {status.socket}" if status.running else "not running"
            self.stdout.write(f"{state}, data in {directory}")
            return
        try:
            stopped = embedded.stop(directory)
        except embedded.EmbeddedError as error:
            raise CommandError(str(error)) from error
        self.stdout.write("stopped" if stopped else "was not running")


def folder_of(alias: str) -> Path:
    """Return the folder of the alias's embedded server."""
    directory = conf.alias(alias).embedded
    if directory is None:
        raise CommandError(f"The alias {alias!r} is not embedded: nothing to do here.")
    return directory
