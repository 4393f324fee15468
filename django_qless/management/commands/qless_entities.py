"""`manage.py qless_entities`: queues with entities, their lists, and the dead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from django.core.management.base import CommandError

from django_qless.core.commands.entities import EntityList
from django_qless.management.base import SubcommandsCommand, add_no_input, integer
from django_qless.management.output import table
from django_qless.operations.entities import QueueEntities

#: The columns of the overview.
COLUMNS = (
    "queue",
    "processed",
    "failed",
    "lag",
    "busy",
    "queued",
    "fresh",
    "retries",
    "dead",
)

QUEUE = "the queue of the entities"
ENTITY = "the id of an entity"


class Command(SubcommandsCommand):
    names_queue = True
    help = "Lists queues with entities and the dead; runs, kills and deletes entities."

    def add_subcommands(self) -> None:
        self.add("queues", self.queues, "the queues with their figures")
        rows = self.add("list", self.list, "the entities of a queue")
        rows.add_argument("queue", help=QUEUE)
        rows.add_argument(
            "which",
            nargs="?",
            choices=get_args(EntityList),
            default="fresh",
            help="which of them (default: fresh, those whose last run has not failed)",
        )
        rows.add_argument(
            "--offset", type=integer(least=0), default=0, help="how many to leave out"
        )
        rows.add_argument(
            "--count",
            type=integer(least=1),
            default=25,
            help="how many to print (default: 25)",
        )
        show = self.add("show", self.show, "an entity with its payloads in order")
        show.add_argument("queue", help=QUEUE)
        show.add_argument("entity", help=ENTITY)
        for name, what in (
            ("run", "let entities run now; without ids all that are delayed"),
            (
                "kill",
                "move entities to the dead; without ids all whose last run has failed",
            ),
            ("delete", "delete entities; without ids all whose last run has failed"),
            ("revive", "bring dead entities back; without ids all of them"),
            ("delete-dead", "delete dead entities; without ids all of them"),
        ):
            change = self.add(name, self.change(name), what)
            change.add_argument("queue", help=QUEUE)
            change.add_argument("entities", nargs="*", metavar="entity", help=ENTITY)
            if name in ("kill", "delete", "delete-dead"):
                add_no_input(change)

    def queues(self, **options: Any) -> None:
        """Print the queues with their figures."""
        counts = self.client.entity_counts()
        if self.as_json:
            self.print_json([each._asdict() for each in counts])
            return
        rows = [[_shown(getattr(each, name)) for name in COLUMNS] for each in counts]
        self.print(table(list(COLUMNS), rows) if rows else "no queue has entities")

    def list(
        self, *, queue: str, which: Any, offset: int, count: int, **options: Any
    ) -> None:
        """Print entities of a queue."""
        found = self.client.entities(which, queue, offset, count)
        if self.as_json:
            self.print_json({"total": found.total, "entities": found.rows})
            return
        rows = [
            [
                row["entity"],
                str(row["payloads"]),
                str(row.get("count", "")),
                (row.get("failure") or row).get("message", "").strip()[-60:],
            ]
            for row in found.rows
        ]
        self.print(table(["entity", "payloads", "count", "last error"], rows))
        self.print(f"{len(rows)} of {found.total}")

    def show(self, *, queue: str, entity: str, **options: Any) -> None:
        """Print an entity with its payloads."""
        record = self.client.entity(queue, entity, 0, 1000)
        if record.job is None and record.dead is None:
            raise CommandError(f"There is no entity {entity!r} in queue {queue!r}")
        self.print_json(
            {
                "entity": record.entity,
                "jid": record.jid,
                "queue": record.queue,
                "job": record.job,
                "dead": record.dead,
                "waiting": record.waiting,
                "running": record.running,
                "dead_payloads": record.dying,
            }
        )

    def change(self, name: str) -> Any:
        """Return the function that applies a subcommand to entities."""

        def act(*, queue: str, entities: Sequence[str], **options: Any) -> None:
            of_queue = QueueEntities(self.alias, queue)
            if not entities and options.get("interactive"):
                self.confirm(f"{name} all of queue {queue}?")
            one_or_all = {
                "run": (of_queue.run_now, of_queue.run_all_now),
                "kill": (of_queue.kill, of_queue.kill_all_failed),
                "delete": (of_queue.delete, of_queue.delete_all_failed),
                "revive": (of_queue.bring_back, of_queue.bring_back),
                "delete-dead": (of_queue.delete_dead, of_queue.delete_dead),
            }[name]
            number = one_or_all[0](*entities) if entities else one_or_all[1]()
            self.report(f"{name}: {number:,} {'entity' if number == 1 else 'entities'}")

        return act


def _shown(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)
