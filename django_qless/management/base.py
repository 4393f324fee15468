"""Base classes of the management commands, and the types of their arguments."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import (
    BaseCommand,
    CommandError,
    DjangoHelpFormatter,
)

from django_qless.conf import DEFAULT_ALIAS, routing
from django_qless.conf.connections import connections
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

    #: The alias that the command is run on.
    alias: str
    client: Client
    as_json: bool
    verbosity: int
    #: Runs the command; each subclass defines it with its options as arguments.
    run: Callable[..., None]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: What is printed as text although JSON is wanted.
        self._text: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add `--alias` and `--json`."""
        parser.add_argument(
            "--alias",
            help="which alias of the setting QLESS (default: that of the queue by "
            "QLESS_ROUTES, else default)",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Connect to the alias and run the command."""
        self.as_json, self.verbosity = options["json"], options["verbosity"]
        try:
            self.alias = self.alias_of(options)
            options["alias"] = self.alias
            self.client = connections[self.alias]
            self.run(**options)
        except (QlessError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error
        finally:
            if self._text:
                self.print_json({"text": "\n".join(self._text)})
                self._text.clear()

    def alias_of(self, options: Mapping[str, Any]) -> str:
        """Return the alias to run on: the one given, else that of the queues.

        Raises CommandError for queues of several aliases.
        """
        if options["alias"]:
            return str(options["alias"])
        found = {routing.alias_of(queue): queue for queue in self.queues_in(options)}
        if len(found) > 1:
            places = ", ".join(f"{queue} in {alias}" for alias, queue in found.items())
            raise CommandError(
                f"The queues are in several aliases ({places}): run the command for each."
            )
        return next(iter(found), DEFAULT_ALIAS)

    def queues_in(self, options: Mapping[str, Any]) -> Sequence[str]:
        """Return the queues, or globs, that the command is about, if it names any."""
        return ()

    def print(self, text: str) -> None:
        """Print a line that was asked for; with `--json`, as a text of the JSON."""
        if self.as_json:
            self._text.append(text)
        else:
            self.stdout.write(text)

    def report(self, text: str, *, is_warning: bool = False) -> None:
        """Print a line on what was done; with `-v 0` only a warning, or JSON."""
        if self.verbosity or self.as_json or is_warning:
            self.print(text)

    def print_json(self, data: object) -> None:
        """Print data as one line of JSON."""
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

    #: Whether its argument `queue` says on which alias it is run.
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

    def queues_in(self, options: Mapping[str, Any]) -> Sequence[str]:
        """Return the queues, or globs, that the command is about, if it names any."""
        if options.get("queues"):
            return list(options["queues"])
        if self.names_queue and options.get("queue") is not None:
            return [options["queue"]]
        return ()


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
