"""`manage.py qless_worker`: takes jobs from queues and runs them."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import (
    BaseCommand,
    CommandError,
    DjangoHelpFormatter,
    SystemCheckError,
)

from django_qless import conf
from django_qless.checks import TAG
from django_qless.conf.routing import alias_of
from django_qless.job_types.discovery import discover
from django_qless.management.reload import CodeWatch, wait_for_working_code
from django_qless.management.worker_options import add_worker_options
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.servers.embedded import EmbeddedError
from django_qless.worker.log import configure_logging, log_event
from django_qless.worker.options import WorkerOptions, new_name
from django_qless.worker.pool import POOLS
from django_qless.worker.reservers import RESERVERS
from django_qless.worker.restart import Program
from django_qless.worker.server_checks import CannotStart
from django_qless.worker.shutdown import signals_help
from django_qless.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django.core.management.base import CommandParser

USAGE = 2
"""The exit code of argparse for bad options."""

EPILOG = """\
pools:
{pools}

reservers:
{reservers}

signals:
{signals}

log (-v): 0 warnings and errors, 1 important events, 2 every job, 3 every call to the
server; LOGGING in the project's settings overrides it: the logger is django_qless.worker

exit codes: 0 stopped on request, 1 errors found by the checks, 2 bad options,
69 (EX_UNAVAILABLE) the server does not answer, 70 (EX_SOFTWARE) the core refused the first
call, 71 (EX_OSERR) it cannot be started again after a HUP, 73 (EX_CANTCREAT) a file cannot be
written, 75 (EX_TEMPFAIL) the name is in use, or jobs were left to their locks,
77 (EX_NOPERM) the server refuses, 78 (EX_CONFIG) a setting is wrong
"""


@contextmanager
def startup_errors() -> Iterator[None]:
    """Turn errors that keep a worker from starting into CommandErrors."""
    try:
        yield
    except CannotStart as error:
        raise CommandError(str(error), returncode=error.code) from error
    except (EmbeddedError, ImproperlyConfigured) as error:
        raise CommandError(str(error), returncode=os.EX_CONFIG) from error


class Formatter(DjangoHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """A formatter that keeps the tables of the epilog."""


class Command(BaseCommand):
    help = "Takes jobs from queues and runs them until it is stopped."
    # The other checks concern code that only serves requests, and load all of it.
    requires_system_checks = [TAG]

    def create_parser(
        self, prog_name: str, subcommand: str, **kwargs: Any
    ) -> CommandParser:
        pools = {name: pool.description for name, pool in POOLS.items()}
        reservers = {name: known.summary for name, known in RESERVERS.items()}
        epilog = EPILOG.format(
            pools=listed(pools),
            reservers=listed(reservers),
            signals=signals_help(),
        )
        kwargs.setdefault("formatter_class", Formatter)
        kwargs.setdefault("epilog", epilog)
        kwargs.setdefault("usage", "%(prog)s [options] [queue ...]")
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        add_worker_options(parser)

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except SystemCheckError as error:
            program = Program()
            is_trial = options["trial"]
            if is_trial or not (program.is_restarting and self.wants_reload(options)):
                raise
            # It worked a moment ago: a developer is editing it.
            self.stderr.write(f"{error}\nWaiting for the code to change.")
            wait_for_working_code()
            program.execute()

    def handle(self, *args: Any, **options: Any) -> None:
        configure_logging(options["verbosity"])
        discover()
        with startup_errors():
            queues = self.queues(options)
        worker_options = self.worker_options(options)
        if options["trial"]:
            return
        log_unserved(queues)
        if code := self.run_worker(worker_options, queues):
            sys.exit(code)

    def run_worker(
        self, options: WorkerOptions, queues: Mapping[str, tuple[str, ...]]
    ) -> int:
        """Run the worker of these aliases and queues; return the exit code."""
        (alias, own), *others = queues.items()
        with startup_errors():
            for each in queues:
                conf.alias(each)
            options = replace(options, alias=alias, queues=own)
            worker = Worker(
                DjangoEnvironment(alias),
                options,
                CodeWatch() if options.reload else None,
                {other: (DjangoEnvironment(other), names) for other, names in others},
            )
            return worker.run()

    def queues(self, options: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """Return the aliases to serve, and the queues of each.

        Without `--alias` a queue is served in the alias to which QLESS_ROUTES routes it.
        """
        wanted = tuple(options["queues"])
        aliases = options["alias"] or []
        if options["all_aliases"]:
            aliases = conf.alias_names()
        elif isinstance(aliases, str):
            # Other code may call the command with a string.
            aliases = [aliases]
        if aliases or not wanted:
            return dict.fromkeys(aliases or [conf.DEFAULT_ALIAS], wanted or ("*",))
        found: dict[str, tuple[str, ...]] = {}
        for queue in wanted:
            alias = alias_of(queue)
            found[alias] = (*found.get(alias, ()), queue)
        return found

    def worker_options(self, options: Mapping[str, Any]) -> WorkerOptions:
        """Return the options of the worker. Raises CommandError."""
        if options["resume"] and not options["name"]:
            raise CommandError(
                "--resume takes over the jobs of an earlier worker of the same name: "
                "give its --name as well.",
                returncode=USAGE,
            )
        given = {
            name: options[name]
            for name in (
                *("reserver", "pool", "concurrency", "block_limit"),
                *("sandbox", "max_jobs", "max_memory", "max_age", "resume", "burst"),
                *("max_idle", "shutdown_timeout", "health_file"),
                *("detached_limit", "keep_detached"),
            )
        }
        return WorkerOptions(
            queues=tuple(options["queues"]) or ("*",),
            exclude=tuple(options["exclude"]),
            alias=next(iter(self.queues(options))),
            name=options["name"] or new_name(),
            reload=self.wants_reload(options),
            **given,
        )

    def wants_reload(self, options: Mapping[str, Any]) -> bool:
        """Return True to restart when the code changes."""
        if options["reload"] is not None:
            return bool(options["reload"])
        # A process of other code that calls this command is not restarted.
        is_program = getattr(self, "_called_from_command_line", False)
        return settings.DEBUG and is_program and not options["burst"]


def log_unserved(queues: Mapping[str, tuple[str, ...]]) -> None:
    """Log which routed queues a worker of all queues leaves out, for they are elsewhere."""
    left_out = [
        f"{queue} ({alias})"
        for queue, alias in conf.routes().items()
        if alias not in queues
    ]
    if left_out and ("*",) in queues.values():
        log_event(
            logging.INFO,
            "queues of other aliases are not served",
            queues=", ".join(left_out),
            remedy="name them, or give --alias or --all-aliases",
        )


def listed(meanings: Mapping[str, str]) -> str:
    """Return names and their meanings as lines of a table."""
    width = max(map(len, meanings)) + 2
    return "\n".join(f"  {name:{width}}{text}" for name, text in meanings.items())
