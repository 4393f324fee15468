"""`manage.py qless_worker`: takes jobs from queues and runs them."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import (
    BaseCommand,
    CommandError,
    DjangoHelpFormatter,
)

from django_qless.checks import TAG
from django_qless.discovery import discover
from django_qless.embedded import EmbeddedError
from django_qless.environment import DjangoEnvironment
from django_qless.worker.log import show
from django_qless.worker.options import SHUTDOWN_TIMEOUT, WorkerOptions, new_name
from django_qless.worker.pools.kinds import KINDS
from django_qless.worker.preflight import CannotWork
from django_qless.worker.reservers import RESERVERS
from django_qless.worker.shutdown import described
from django_qless.worker.worker import Worker

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


class Formatter(DjangoHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Lets the table of signals stay a table."""


class Command(BaseCommand):
    help = "Takes jobs from queues and runs them until it is told to stop."
    # The others look at what only serves requests, and load all of it.
    requires_system_checks = [TAG]

    def create_parser(
        self, prog_name: str, subcommand: str, **kwargs: Any
    ) -> CommandParser:
        kwargs.setdefault("formatter_class", Formatter)
        kwargs.setdefault("epilog", f"signals:\n{described()}")
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add(
            "queues",
            nargs="*",
            metavar="queue",
            help="a name, or a glob with * and ?; the most urgent first (default: all)",
        )
        add(
            "-x",
            "--exclude",
            action="append",
            default=[],
            metavar="QUEUE",
            help="leave out this queue or glob (may be repeated)",
        )
        add("--alias", default="default", help="which alias of the setting QLESS")
        add(
            "--name",
            help="a name that no other worker has (default: host, process, chance)",
        )
        add(
            "--concurrency",
            type=_positive,
            default=1,
            metavar="N",
            help="how many jobs at once (default: 1)",
        )
        add("--pool", choices=sorted(KINDS), default="prefork", help="who runs them")
        add(
            "--reserver",
            choices=sorted(RESERVERS),
            default="ordered",
            help="which queue is next (default: ordered)",
        )
        add("--burst", action="store_true", help="end when the queues are empty")
        add(
            "--shutdown-timeout",
            type=_seconds,
            default=SHUTDOWN_TIMEOUT,
            metavar="SECONDS",
            help="how long running jobs may go on after a TERM (default: %(default)g)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        show(options["verbosity"])
        discover()
        asked = WorkerOptions(
            queues=tuple(options["queues"]) or ("*",),
            exclude=tuple(options["exclude"]),
            alias=options["alias"],
            name=options["name"] or new_name(),
            concurrency=options["concurrency"],
            pool=options["pool"],
            reserver=options["reserver"],
            burst=options["burst"],
            shutdown_timeout=options["shutdown_timeout"],
        )
        try:
            code = Worker(DjangoEnvironment(asked.alias), asked).run()
        except CannotWork as error:
            raise CommandError(str(error), returncode=error.code) from error
        except (EmbeddedError, ImproperlyConfigured) as error:
            raise CommandError(str(error), returncode=os.EX_CONFIG) from error
        if code:
            sys.exit(code)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return number
