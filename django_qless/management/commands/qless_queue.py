"""`manage.py qless_queue`: queues paused, resumed, limited, emptied."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless.core import WrongState
from django_qless.management import numbers
from django_qless.management.base import NO_JOBS, QlessCommand, add_no_input
from django_qless.management.cancelling import cancel_all, left
from django_qless.management.overview import Overview
from django_qless.management.words import counted, table
from django_qless.overview import queues
from django_qless.selection import IN_QUEUE, Selection

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

LIMITS = ("heartbeat", "max_concurrency", "weight")


class Command(QlessCommand):
    help = "Lists queues; pauses, resumes, limits, empties and forgets them."

    def add_arguments(self, parser: CommandParser) -> None:
        words = parser.add_subparsers(dest="word", required=True, metavar="word")
        self.add_word(words, "list", "the queues with their counts, lag and limits")
        for word, text in (
            ("pause", "hand out no more of their jobs"),
            ("resume", "hand out their jobs again"),
            ("forget", "take empty queues off the list of known ones"),
        ):
            parser = self.add_word(words, word, text)
            parser.add_argument("queues", nargs="+", metavar="queue")
            if word == "pause":
                parser.add_argument(
                    "--reason", default="", help="kept for people, with who paused them"
                )
        limit = self.add_word(words, "limit", "set how a queue is served")
        limit.add_argument("queue")
        limit.add_argument(
            "--heartbeat", type=numbers.some_seconds, help="seconds that a lock lasts"
        )
        limit.add_argument(
            "--max-concurrency",
            type=lambda text: numbers.whole(text, least=0),
            help="how many of its jobs may run at the same time; 0: any number",
        )
        limit.add_argument(
            "--weight",
            type=numbers.seconds,
            help="how often a lottery draws it, beside the others; 0: never",
        )
        empty = self.add_word(words, "empty", "cancel its jobs in a state")
        empty.add_argument("queue")
        empty.add_argument("--state", choices=IN_QUEUE, required=True)
        add_no_input(empty)

    def add_word(self, words: Any, word: str, text: str) -> Any:
        """Add one of the command's words, with the options that all have."""
        aliases = {"resume": ["unpause"]}.get(word, [])
        parser = words.add_parser(word, help=text, aliases=aliases)
        super().add_arguments(parser)
        return parser

    def act(self, **options: Any) -> None:
        word = "resume" if options["word"] == "unpause" else options["word"]
        getattr(self, f"do_{word}")(options)

    def do_list(self, options: dict[str, Any]) -> None:
        """Print the queues."""
        overview = Overview.of(self.client)
        limits = {
            queue["name"]: self.limits(queue["name"]) for queue in overview.queues
        }
        if options["json"]:
            self.print_json([q | limits[q["name"]] for q in overview.queues])
            return
        self.say(overview.queue_table())
        told = [
            [name, *(str(each[limit] or "") for limit in LIMITS)]
            for name, each in limits.items()
            if any(value is not None for value in each.values())
        ]
        if told:
            self.say("\n" + table(["queue", *LIMITS], told, ""))

    def limits(self, queue: str) -> dict[str, Any]:
        """Return what is set of a queue's limits."""
        return {
            limit: self.client.config_get(f"{queue}-{limit.replace('_', '-')}")
            for limit in LIMITS
        }

    def do_pause(self, options: dict[str, Any]) -> None:
        """Hand out no more jobs."""
        self.client.pause(options["queues"], options["reason"], by=who())
        self.say(f"paused: {', '.join(options['queues'])}")

    def do_resume(self, options: dict[str, Any]) -> None:
        """Hand out jobs again."""
        self.client.unpause(options["queues"])
        self.say(f"resumed: {', '.join(options['queues'])}")

    def do_forget(self, options: dict[str, Any]) -> None:
        """Take empty queues off the list."""
        try:
            self.client.forget_queue(options["queues"], only_if_empty=True)
        except WrongState as error:
            raise CommandError(
                f"{error.detail}: empty it first, or it would be known again at once"
            ) from error
        self.say(f"forgotten: {', '.join(options['queues'])}")

    def do_limit(self, options: dict[str, Any]) -> None:
        """Set how a queue is served."""
        given = {name: options[name] for name in LIMITS if options[name] is not None}
        if not given:
            raise CommandError(
                "Give at least one of --heartbeat, --max-concurrency, --weight"
            )
        queue = queues.using_alias(self.alias)[options["queue"]]
        for name, value in given.items():
            getattr(queue, f"set_{name}")(value)
            self.say(f"{queue.name}: {name.replace('_', ' ')} is {value:g}")

    def do_empty(self, options: dict[str, Any]) -> None:
        """Cancel a queue's jobs in a state."""
        selection = Selection(queue=options["queue"], state=options["state"])
        jids = selection.jids(self.client)
        if not jids:
            self.say(NO_JOBS)
            return
        question = f"Cancel what is {options['state']} in {options['queue']}: {counted(len(jids), 'job')}?"
        self.confirm(question, asked=options["interactive"])
        done, refused = cancel_all(self.client, jids)
        self.say(f"cancelled: {counted(len(done), 'job')}")
        for line in left(refused):
            self.say(line)


def who() -> str:
    """Return who gives the command, as the system knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""  # a container whose user has no name
