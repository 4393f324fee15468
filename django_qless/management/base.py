"""Base classes of the management commands, and the types of their arguments."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import (
    BaseCommand,
    CommandError,
    DjangoHelpFormatter,
)

from django_qless import conf
from django_qless.conf import DEFAULT_ALIAS
from django_qless.conf.connections import connections
from django_qless.conf.routing import queue_namespaces
from django_qless.core.exceptions import QlessError

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

    from django_qless.core import Client


class UncheckedCommand(BaseCommand):
    """A command without system checks; Django's options may stand anywhere.

    So a script may give all commands the same options, `--skip-checks` among them.
    """

    requires_system_checks = []

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._base_arguments: list[tuple[tuple[str, ...], dict[str, Any]]] = []
        #: The parsers of subcommands.
        self._parsers: list[CommandParser] = []

    def create_parser(
        self, prog_name: str, subcommand: str, **kwargs: Any
    ) -> CommandParser:
        """Return the parser, whose subcommands take Django's options, too."""
        self._base_arguments, self._parsers = [], []
        parser: CommandParser = super().create_parser(prog_name, subcommand, **kwargs)
        help_text = "Accepted for scripts: this command runs no system checks."
        self.add_base_argument(
            parser, "--skip-checks", action="store_true", help=help_text
        )
        for inner in self._parsers:
            for names, options in self._base_arguments:
                # Without a default: it would replace what stands before the subcommand.
                inner.add_argument(*names, **options | {"default": argparse.SUPPRESS})
        return parser

    def add_base_argument(
        self, parser: CommandParser, *args: str, **kwargs: Any
    ) -> None:
        """Add an option of Django's."""
        super().add_base_argument(parser, *args, **kwargs)
        self._base_arguments.append((args, kwargs))


class QlessCommand(UncheckedCommand):
    """A command on one alias; errors of the server become CommandErrors."""

    #: The namespace that the command is run on; the alias, where it has no others.
    alias: str
    client: Client
    as_json: bool
    verbosity: int
    #: Runs the command; each subclass defines it with its options as arguments.
    run: Callable[..., None]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: What is printed as JSON, by namespace, if there are several.
        self._printed: dict[str, Any] | None = None
        #: What is printed as text although JSON is wanted.
        self._text: list[str] = []
        #: The name of a namespace of which nothing has been printed yet.
        self._heading = ""

    def add_arguments(self, parser: CommandParser) -> None:
        """Add `--alias` and `--json`."""
        add_alias(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Connect to the alias and run the command."""
        self.as_json, self.verbosity = options["json"], options["verbosity"]
        try:
            parts = self.parts(conf.namespaces_of(options["alias"]), options)
        except (QlessError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error
        if len(parts) == 1:
            self.run_on(*parts[0])
        else:
            self.run_on_each(parts)

    def parts(
        self, names: Sequence[str], options: dict[str, Any]
    ) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return the namespaces to run the command on, each with its options.

        By default these are all of the alias, with the same options.
        """
        return [(name, options) for name in names]

    def run_on(self, name: str, options: dict[str, Any]) -> None:
        """Run the command on one namespace."""
        self.alias = name
        try:
            self.client = connections[name]
            self.run(**options)
        except (QlessError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error
        finally:
            if self._text:
                self.print_json({"text": "\n".join(self._text)})
                self._text.clear()

    def run_on_each(self, parts: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Run the command on several namespaces; fail at the end if it failed on one.

        A server that is away keeps no other from being shown.
        """
        failed: list[str] = []
        self._printed = {} if self.as_json else None
        for name, options in parts:
            self._heading = "" if self.as_json else f"namespace {name}:"
            if self.verbosity:
                self.print_heading()
            try:
                self.run_on(name, options)
            except CommandError as error:
                failed.append(f"{name}: {error}")
                self.note_failure(name, str(error))
            except SystemExit as ended:
                # It has said why.
                failed += [name] if ended.code else []
            if not (self.as_json or self._heading):
                self.print("")
        printed, self._printed = self._printed, None
        if printed is not None:
            self.print_json(printed)
        if failed:
            raise CommandError(f"failed on {'; '.join(failed)}")

    def note_failure(self, name: str, text: str) -> None:
        """Say at its place that a namespace could not be shown."""
        if self._printed is None:
            self.print(text)
        else:
            self._printed.setdefault(name, {"problem": text})

    def print(self, text: str) -> None:
        """Print a line that was asked for; with `--json`, as a text of the JSON."""
        if self.as_json:
            self._text.append(text)
        else:
            self.print_heading()
            self.stdout.write(text)

    def print_heading(self) -> None:
        """Print which namespace the following lines are about, once."""
        if self._heading:
            self.stdout.write(self._heading)
            self._heading = ""

    def report(self, text: str, *, is_warning: bool = False) -> None:
        """Print a line on what was done; with `-v 0` only a warning, or JSON."""
        if self.verbosity or self.as_json or is_warning:
            self.print(text)

    def print_json(self, data: object) -> None:
        """Print data as one line of JSON; of several namespaces in one, by their names."""
        if self._printed is not None:
            self._printed[self.alias] = data
            return
        self.stdout.write(json.dumps(data, default=str, ensure_ascii=False))

    def confirm(self, question: str) -> None:
        """Ask for confirmation; raise CommandError unless the answer is yes."""
        try:
            answer = input(f"{question} [y/N] ")
        except EOFError:
            raise CommandError(
                "Confirmation is needed, but standard input is closed; nothing was "
                "changed. Add --no-input to run without confirmation."
            ) from None
        if answer.strip().lower() not in ("y", "yes"):
            raise CommandError("Nothing was changed.")


class SubcommandsCommand(QlessCommand):
    """A command whose subcommands are methods and share its arguments."""

    #: Whether its argument `queue` says on which namespace it is run.
    names_queue = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the subcommands."""
        self._subparsers = parser.add_subparsers(
            dest="subcommand", required=True, metavar="subcommand"
        )
        self.add_subcommands()

    def add_subcommands(self) -> None:
        """Call `add` for each subcommand."""
        raise NotImplementedError

    def add(
        self,
        name: str,
        run: Callable[..., None],
        text: str,
        aliases: Sequence[str] = (),
    ) -> CommandParser:
        """Add a subcommand and return its parser."""
        parser: CommandParser = self._subparsers.add_parser(
            name,
            help=text,
            description=text,
            aliases=list(aliases),
            formatter_class=DjangoHelpFormatter,
        )
        self._parsers.append(parser)
        super().add_arguments(parser)
        parser.set_defaults(run_subcommand=run)
        return parser

    def run(self, **options: Any) -> None:
        """Run the subcommand."""
        options["run_subcommand"](**options)

    def parts(
        self, names: Sequence[str], options: dict[str, Any]
    ) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return the namespaces to run on: those that have the queues of the options."""
        if options.get("queues"):
            found = by_queue(names, options["queues"])
            return [(name, {**options, "queues": some}) for name, some in found]
        if self.names_queue and options.get("queue") is not None:
            found = by_queue(names, [options["queue"]])
            return [(name, options) for name, _ in found]
        return super().parts(names, options)


def add_alias(parser: CommandParser) -> None:
    """Add `--alias`."""
    parser.add_argument(
        "--alias",
        default=DEFAULT_ALIAS,
        help="which alias of the setting QLESS, with all of its NAMESPACES; one of these "
        "is called alias/key, and that of all other queues alias/",
    )


def by_queue(
    names: Sequence[str], queues: Sequence[str]
) -> list[tuple[str, list[str]]]:
    """Return which of these namespaces have which of these queues.

    The first is that of all queues that are not routed elsewhere. A queue that is split is
    in each of its partitions.
    """
    if len(names) == 1:
        return [(names[0], list(queues))]
    found: dict[str, list[str]] = {}
    for queue in queues:
        for name in queue_namespaces(names[0], queue):
            found.setdefault(name, []).append(queue)
    return list(found.items())


def add_no_input(parser: CommandParser) -> None:
    """Add `--no-input`, under the name that Django's commands have."""
    parser.add_argument(
        "--no-input",
        "--noinput",
        action="store_false",
        dest="interactive",
        help="do not ask for confirmation",
    )


def integer(*, least: int = 1, most: int | None = None) -> Callable[[str], int]:
    """Return an argument type: whole numbers from `least` to `most`."""
    remedy = f"give a whole number from {least}" + (f" to {most}" if most else "")

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ArgumentTypeError(
                f"{text!r} is not a whole number: {remedy}"
            ) from None
        if number < least:
            raise ArgumentTypeError(f"{number} is less than {least}: {remedy}")
        if most is not None and number > most:
            raise ArgumentTypeError(f"{number} is more than {most}: {remedy}")
        return number

    return read


def seconds(text: str) -> float:
    """Read a number of seconds from 0."""
    return _number(text, 0, "duration: give seconds, from 0")


def positive_seconds(text: str) -> float:
    """Read a number of seconds above 0."""
    return _number(text, sys.float_info.min, "duration: give seconds, more than 0")


def weight(text: str) -> float:
    """Read the weight of a queue, from 0."""
    return _number(text, 0, "weight: give a number from 0, such as 1.5")


def megabytes(text: str) -> int:
    """Read a size in megabytes, from 1; return it in bytes."""
    number = _number(text, 1, "size: give megabytes, from 1", most=2**40)
    return int(number * 1024 * 1024)


def _number(text: str, least: float, what: str, most: float = math.inf) -> float:
    """Read a number from `least` to below `most`; else say that it is no such thing."""
    with contextlib.suppress(ValueError):
        if least <= (number := float(text)) < most:
            return number
    raise ArgumentTypeError(f"{text!r} is not a {what}")
