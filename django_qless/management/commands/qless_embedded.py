"""`manage.py qless_embedded`: shows or stops the embedded development server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless import conf
from django_qless.management.base import UncheckedCommand
from django_qless.servers import embedded

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


class Command(UncheckedCommand):
    help = "Shows or stops the embedded development server of an alias."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=embedded.ACTIONS)
        parser.add_argument(
            "--alias",
            default=conf.DEFAULT_ALIAS,
            help="which alias of the setting QLESS (default: %(default)s)",
        )

    def handle(self, *args: Any, action: str, alias: str, **options: Any) -> None:
        directory = conf.alias(alias).embedded
        if directory is None:
            raise CommandError(f"The alias {alias!r} has no embedded server.")
        try:
            text = embedded.report(action, directory)
        except embedded.EmbeddedError as error:
            raise CommandError(str(error)) from error
        sharing = [
            name
            for name in conf.alias_names()
            if conf.alias(name).embedded == directory
        ]
        if len(sharing) > 1:
            text += f" (one server for the aliases {', '.join(sharing)})"
        if options["verbosity"] or action == "status":
            self.stdout.write(text)
