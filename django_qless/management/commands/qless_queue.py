"""`manage.py qless_queue`: lists, pauses, resumes, limits, empties and forgets queues."""

from __future__ import annotations

import getpass
from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless.core import WrongState
from django_qless.core.rates import RATE, is_rate
from django_qless.core.states import IN_QUEUE
from django_qless.management.base import (
    SubcommandsCommand,
    add_no_input,
    integer,
    positive_seconds,
    weight,
)
from django_qless.management.output import changed_text, counted, table
from django_qless.management.status import queue_table
from django_qless.operations import objects
from django_qless.operations.bulk import change_jobs
from django_qless.operations.job_query import JobQuery
from django_qless.operations.status import NamespaceStatus, queue_data

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

LIMITS = ("heartbeat", "max_concurrency", "rate", "weight")

QUEUE = "the name of a queue"


class Command(SubcommandsCommand):
    names_queue = True
    help = "Lists queues; pauses, resumes, limits, empties and forgets them."

    def add_subcommands(self) -> None:
        self.add("list", self.list, "the queues with their counts, lag and limits")
        pause = self.add("pause", self.pause, "stop handing out their jobs")
        add_queues(pause)
        pause.add_argument(
            "--reason",
            default="",
            help="shown with the name of the user who paused them",
        )
        resume = self.add(
            "resume", self.resume, "hand out their jobs again", aliases=["unpause"]
        )
        add_queues(resume)
        forget = self.add("forget", self.forget, "remove empty queues from the list")
        add_queues(forget)
        limit = self.add(
            "limit", self.limit, "set how a queue is served; it overrides the settings"
        )
        limit.add_argument("queue", help=QUEUE)
        limit.add_argument(
            "--heartbeat",
            type=positive_seconds,
            help="seconds that a lock of one of its jobs lasts",
        )
        limit.add_argument(
            "--max-concurrency",
            type=integer(least=0),
            help="how many of its jobs may run at the same time; 0: any number",
        )
        limit.add_argument(
            "--rate",
            type=rate,
            help="how often its jobs may start, such as 100/m; 0: any number",
        )
        limit.add_argument(
            "--weight",
            type=weight,
            help="its share of the draws of the lottery reservers; 0: only when the "
            "others are empty",
        )
        held = self.add("held", self.held, "the limits that hold back its jobs")
        held.add_argument("queue", help=QUEUE)
        empty = self.add("empty", self.empty, "cancel its jobs in a state")
        empty.add_argument("queue", help=QUEUE)
        empty.add_argument(
            "--state", choices=IN_QUEUE, required=True, help="those in this state"
        )
        add_no_input(empty)

    def list(self, **options: Any) -> None:
        """Print the queues."""
        queues = NamespaceStatus.read(self.client).queues
        names = [queue.counts.name for queue in queues]
        limits = {name: self.limits(name) for name in names}
        if self.as_json:
            self.print_json(
                [queue_data(queue) | limits[queue.counts.name] for queue in queues]
            )
            return
        self.print(queue_table(queues))
        rows = [
            [name, *(str(value or "") for value in values.values())]
            for name, values in limits.items()
            if any(value is not None for value in values.values())
        ]
        if rows:
            self.print("\n" + table(["queue", *LIMITS], rows))

    def limits(self, queue: str) -> dict[str, Any]:
        """Return the limits of a queue that are set."""
        return {
            limit: self.client.config_get(f"{queue}-{limit.replace('_', '-')}")
            for limit in LIMITS
        }

    def held(self, *, queue: str, **options: Any) -> None:
        """Print a queue's own limit, and those that hold back its jobs."""
        found = self.client.limits(queue)
        limits = [found.queue] if found.queue else []
        limits += found.limits
        if self.as_json:
            self.print_json([each._asdict() for each in limits])
            return
        rows = [
            [
                *(each.kind, each.type, each.key),
                "" if each.kind == "queue" else str(each.held_back),
                "" if each.most is None else f"{each.running} of {each.most}",
                "" if each.rate is None else f"{each.started} of {each.rate[0]}",
            ]
            for each in limits
        ]
        head = ["limit", "type", "key", "held back", "running", "started"]
        self.print(table(head, rows, "no limit holds back jobs of this queue"))

    def pause(self, *, queues: Sequence[str], reason: str, **options: Any) -> None:
        """Stop handing out jobs."""
        self.client.pause(queues, reason, by=user_name())
        self.report(f"paused: {', '.join(queues)}")

    def resume(self, *, queues: Sequence[str], **options: Any) -> None:
        """Hand out jobs again."""
        self.client.unpause(queues)
        self.report(f"resumed: {', '.join(queues)}")

    def forget(self, *, queues: Sequence[str], **options: Any) -> None:
        """Remove empty queues from the list."""
        try:
            self.client.forget_queue(queues, only_if_empty=True)
        except WrongState as error:
            raise CommandError(
                f"{error.detail}: empty it first, or it would be back immediately"
            ) from error
        self.report(f"forgotten: {', '.join(queues)}")

    def limit(self, *, queue: str, **options: Any) -> None:
        """Set how a queue is served."""
        given = {name: options[name] for name in LIMITS if options[name] is not None}
        if not given:
            raise CommandError(
                "Give at least one of --heartbeat, --max-concurrency, --rate, --weight"
            )
        handle = objects.queues.using_alias(self.alias)[queue]
        for name, value in given.items():
            getattr(handle, f"set_{name}")(value)
            self.report(f"{queue}: {name.replace('_', ' ')} is {value}")

    def empty(
        self, *, queue: str, state: str, interactive: bool, **options: Any
    ) -> None:
        """Cancel the jobs of a queue in a state."""
        jids = JobQuery(queue=queue, state=state).jids(self.client)
        if not jids:
            self.report("no jobs match: nothing to do")
            return
        if interactive:
            self.confirm(f"Cancel {counted(len(jids), f'{state} job')} in {queue}?")
        run = change_jobs(self.client, "cancel", jids)
        self.report(changed_text(run, "canceled"), is_warning=run.refused > 0)


def rate(text: str) -> str:
    """Return the text of a rate. Raises ArgumentTypeError."""
    if text != "0" and not is_rate(text):
        raise ArgumentTypeError(f"must be {RATE}, or 0 for none, not {text!r}")
    return text


def user_name() -> str:
    """Return the system's name of the user who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""  # a container whose user has no name


def add_queues(parser: CommandParser) -> None:
    """Add the names of queues."""
    parser.add_argument("queues", nargs="+", metavar="queue", help=QUEUE)
