"""`manage.py qless_worker`: takes jobs from queues and runs them."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import contextmanager
from functools import partial
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
from django_qless.core.arguments import MOST_JOBS
from django_qless.discovery import discover
from django_qless.management.numbers import megabytes, seconds, some_seconds, whole
from django_qless.reload import TRIAL, wait_until_it_works, watch
from django_qless.running.environment import DjangoEnvironment
from django_qless.servers.embedded import EmbeddedError
from django_qless.worker.group import WorkerGroup, own_place, when_it_answers
from django_qless.worker.log import show
from django_qless.worker.options import (
    BATCH,
    BLOCK_LIMIT,
    SHUTDOWN_TIMEOUT,
    WorkerOptions,
    new_name,
)
from django_qless.worker.pools.kinds import KINDS
from django_qless.worker.preflight import CannotWork
from django_qless.worker.reexec import Program
from django_qless.worker.reservers import RESERVERS
from django_qless.worker.shutdown import described
from django_qless.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django.core.management.base import CommandParser

USAGE = 2
"""The exit code of argparse for options that make no sense."""

EPILOG = """\
pools:
{pools}

reservers:
{reservers}

signals:
{signals}

log (-v): 0 trouble only, 1 what matters, 2 every job, 3 every call to the server;
a project with LOGGING of its own decides itself: the logger is django_qless.worker

exit codes: 0 ended as it was told to, 1 errors found by the checks, 2 bad options,
69 (EX_UNAVAILABLE) the server does not answer, 70 (EX_SOFTWARE) the worker of one of
several aliases was killed, 73 (EX_CANTCREAT) a file cannot be
written, 75 (EX_TEMPFAIL) the name is in use, or jobs were left to their locks,
77 (EX_NOPERM) the server refuses, 78 (EX_CONFIG) a setting is wrong
"""


@contextmanager
def known_troubles() -> Iterator[None]:
    """Turn what keeps a worker from its work into a CommandError."""
    try:
        yield
    except CannotWork as error:
        raise CommandError(str(error), returncode=error.code) from error
    except (EmbeddedError, ImproperlyConfigured) as error:
        raise CommandError(str(error), returncode=os.EX_CONFIG) from error


class Formatter(DjangoHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Lets the tables stay tables."""


class Command(BaseCommand):
    help = "Takes jobs from queues and runs them until it is told to stop."
    # The others look at what only serves requests, and load all of it.
    requires_system_checks = [TAG]

    def create_parser(
        self, prog_name: str, subcommand: str, **kwargs: Any
    ) -> CommandParser:
        pools = {name: kind.words for name, kind in KINDS.items()}
        reservers = {name: known.summary for name, known in RESERVERS.items()}
        epilog = EPILOG.format(
            pools=listed(pools),
            reservers=listed(reservers),
            signals=described(),
        )
        kwargs.setdefault("formatter_class", Formatter)
        kwargs.setdefault("epilog", epilog)
        kwargs.setdefault("usage", "%(prog)s [options] [queue ...]")
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_what(parser.add_argument_group("which jobs"))
        self.add_how(parser.add_argument_group("how they are run"))
        self.add_renewal(parser.add_argument_group("when a child is replaced"))
        self.add_life(parser.add_argument_group("beginning and end"))

    def add_what(self, group: Any) -> None:
        add = group.add_argument
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
        which = group.add_mutually_exclusive_group()
        which.add_argument(
            "--alias",
            action="append",
            help="which alias of the setting QLESS (default: default); may be repeated: "
            "each alias has a worker of its own",
        )
        which.add_argument(
            "--all-aliases", action="store_true", help="serve all aliases of QLESS"
        )
        add(
            "--reserver",
            choices=list(RESERVERS),
            default="ordered",
            metavar="NAME",
            help="which queue is next: see below (default: %(default)s)",
        )
        add(
            "--batch",
            type=partial(whole, most=MOST_JOBS),
            default=BATCH,
            metavar="N",
            help="how many jobs a child may be given at once while they are quick; "
            "1: strictly one at a time (default: %(default)s)",
        )

    def add_how(self, group: Any) -> None:
        add = group.add_argument
        add(
            "--pool",
            choices=list(KINDS),
            default="prefork",
            metavar="NAME",
            help="who runs the jobs: see below (default: %(default)s)",
        )
        add(
            "--concurrency",
            type=whole,
            default=1,
            metavar="N",
            help="how many jobs at once (default: %(default)s)",
        )
        add(
            "--block-limit",
            type=some_seconds,
            default=BLOCK_LIMIT,
            metavar="SECONDS",
            help="coroutines: how long a job may block the event loop before its stack "
            "is dumped and it is given up (default: %(default)g)",
        )
        add(
            "--sandbox",
            type=folder,
            metavar="PATH",
            help="the folder for the jobs' sandboxes (default: the system's temporary "
            "folder)",
        )

    def add_renewal(self, group: Any) -> None:
        add = group.add_argument
        add("--max-jobs", type=whole, metavar="N", help="after about so many jobs")
        add(
            "--max-memory",
            type=megabytes,
            metavar="MB",
            help="when it has grown beyond so many megabytes",
        )
        add(
            "--max-age",
            type=some_seconds,
            metavar="SECONDS",
            help="when it is about so old; it always ends its jobs first",
        )

    def add_life(self, group: Any) -> None:
        add = group.add_argument
        add(
            "--name",
            help="a name that no other worker has (default: host, process, chance)",
        )
        add(
            "--resume",
            action="store_true",
            help="take up the jobs that a worker of this --name still holds",
        )
        add("--burst", action="store_true", help="end when the queues are empty")
        add(
            "--max-idle",
            type=some_seconds,
            metavar="SECONDS",
            help="end when nothing has run for so long",
        )
        add(
            "--shutdown-timeout",
            type=seconds,
            default=SHUTDOWN_TIMEOUT,
            metavar="SECONDS",
            help="how long running jobs may go on after a TERM (default: %(default)g)",
        )
        add(
            "--reload",
            action=argparse.BooleanOptionalAction,
            help="execute anew when the code has changed and works; running jobs end "
            "first (default: the setting DEBUG)",
        )
        add(
            "--health-file",
            metavar="PATH",
            help="show there that the worker lives: see qless_health",
        )
        add("--pidfile", metavar="PATH", help="write the process id there")
        add(TRIAL, action="store_true", dest="trial", help=argparse.SUPPRESS)

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except SystemCheckError as error:
            program = Program()
            is_trial = options["trial"]
            if is_trial or not (program.is_second and self.wants_reload(options)):
                raise
            # It worked a moment ago: somebody is at it, and will go on.
            self.stderr.write(f"{error}\nWaiting for a change of the code.")
            wait_until_it_works()
            program.execute()

    def handle(self, *args: Any, **options: Any) -> None:
        show(options["verbosity"])
        discover()
        aliases, asked = self.aliases(options), self.asked(options)
        if options["trial"]:
            return
        if place := own_place():
            code = self.work(place.options(asked))
        elif len(aliases) == 1:
            code = self.work(asked)
        else:
            code = self.work_apart(asked, aliases)
        if code:
            sys.exit(code)

    def work(self, asked: WorkerOptions) -> int:
        """Be the worker of one alias; return the exit code, or raise CommandError."""

        def run() -> int:
            environment = DjangoEnvironment(asked.alias)
            return Worker(environment, asked, watch if asked.reload else None).run()

        with known_troubles():
            return run() if asked.parent is None else when_it_answers(asked, run)

    def work_apart(self, asked: WorkerOptions, aliases: Sequence[str]) -> int:
        """Have a process work for each alias; return the exit code."""

        def work(options: WorkerOptions) -> int:
            try:
                return self.work(options)
            except CommandError as error:
                self.stderr.write(f"{options.alias}: {error}")
                return error.returncode

        with known_troubles():
            for alias in aliases:
                conf.alias(alias)
            DjangoEnvironment(asked.alias).before_fork()
            return WorkerGroup(asked, aliases, work).run()

    def aliases(self, options: Mapping[str, Any]) -> list[str]:
        """Return the aliases that are to be served, each once."""
        if options["all_aliases"]:
            return conf.names()
        given = options["alias"] or [conf.DEFAULT_ALIAS]
        # Other code may call the command with a text.
        return [given] if isinstance(given, str) else list(dict.fromkeys(given))

    def asked(self, options: Mapping[str, Any]) -> WorkerOptions:
        """Return what the command line asks for; raise CommandError."""
        if options["resume"] and not options["name"]:
            raise CommandError(
                "--resume takes up the jobs of an earlier worker of the same name: "
                "give its --name as well.",
                returncode=USAGE,
            )
        given = {
            name: options[name]
            for name in (
                *("reserver", "batch", "pool", "concurrency", "block_limit"),
                *("sandbox", "max_jobs", "max_memory", "max_age", "resume", "burst"),
                *("max_idle", "shutdown_timeout", "health_file", "pidfile"),
            )
        }
        return WorkerOptions(
            queues=tuple(options["queues"]) or ("*",),
            exclude=tuple(options["exclude"]),
            alias=self.aliases(options)[0],
            name=options["name"] or new_name(),
            reload=self.wants_reload(options),
            **given,
        )

    def wants_reload(self, options: Mapping[str, Any]) -> bool:
        """Return whether the code is to be watched."""
        if options["reload"] is not None:
            return bool(options["reload"])
        # Called by other code, the process is not this command's to execute anew.
        is_program = getattr(self, "_called_from_command_line", False)
        return settings.DEBUG and is_program and not options["burst"]


def folder(text: str) -> str:
    """Return the absolute path of a folder in which files can be made."""
    path = os.path.abspath(text)
    if not os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"there is no folder {text}: make it first")
    if not os.access(path, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"nothing can be written in the folder {text}")
    return path


def listed(words: Mapping[str, str]) -> str:
    """Return names and what they mean as lines of a table."""
    width = max(map(len, words)) + 2
    return "\n".join(f"  {name:{width}}{text}" for name, text in words.items())
