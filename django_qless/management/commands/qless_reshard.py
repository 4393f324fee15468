"""`manage.py qless_reshard`: moves jobs whose queue has another namespace now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless.conf.routing import only
from django_qless.management.base import QlessCommand
from django_qless.management.output import counted, table
from django_qless.operations.resharding import Progress, Resharding

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

#: Seconds between two lines on the progress.
EVERY = 2.0


class Command(QlessCommand):
    help = (
        "Moves jobs to the namespaces where NAMESPACES and partitions route their queues "
        "now, while producers and workers go on. Safe to stop and to run again. Exit code 1 "
        "if jobs are left, with what has to be done first."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add `--queue` and `--dry-run`."""
        super().add_arguments(parser)
        parser.add_argument("--queue", default="", help="only the jobs of this queue")
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="show which queues have jobs elsewhere, and change nothing",
        )

    def parts(
        self, names: Sequence[str], options: dict[str, Any]
    ) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return the first namespace: jobs of all are moved together."""
        return [(names[0], options)]

    def run(self, *, queue: str, dry_run: bool, **options: Any) -> None:
        self._printed_at = time.monotonic()
        resharding = Resharding(options["alias"], queue, self._show_progress)
        if dry_run:
            self._show([*resharding.survey()])
            return
        done: list[Progress] = []
        try:
            done.extend(resharding.run())
        except KeyboardInterrupt:
            raise CommandError(
                "stopped; nothing is lost: run it again to go on"
            ) from None
        self._show_done(done)

    def _show_progress(self, progress: Progress) -> None:
        if not self.as_json and time.monotonic() - self._printed_at >= EVERY:
            self._printed_at = time.monotonic()
            name, queue = progress.place
            moved = counted(progress.moved.total(), "job")
            self.report(f"queue {queue} of {name}: {moved} moved so far")

    def _show(self, found: Sequence[Progress]) -> None:
        if self.as_json:
            self.print_json([each.as_dict() for each in found])
            return
        states = ("waiting", "scheduled", "failed", "running", "depends", "recurring")
        rows = [
            [
                *(each.place.queue, each.place.namespace, _targets(each)),
                *(str(each.counts.get(state) or "") for state in states),
            ]
            for each in found
        ]
        head = ["queue", "is in", "belongs to", *states]
        self.print(table(head, rows, "all queues are where they are routed"))

    def _show_done(self, done: Sequence[Progress]) -> None:
        left = [each for each in done if each.stay or each.problem]
        if self.as_json:
            self.print_json([each.as_dict() for each in done])
        else:
            if not done:
                self.report("all queues are where they are routed")
            for each in done:
                self._show_one(each)
        if left:
            raise CommandError(
                "jobs are left where they were: "
                + ", ".join(
                    f"{each.place.queue} of {each.place.namespace}" for each in left
                )
                + ". Do what is said of them, then run it again"
            )

    def _show_one(self, progress: Progress) -> None:
        name, queue = progress.place
        is_left = bool(progress.stay or progress.problem)
        self.report(f"queue {queue} of {name}:", is_warning=is_left)
        for target, number in sorted(progress.moved.items()):
            self.report(f"  {counted(number, 'job')} moved to {target}")
        for reason, number in progress.stay.most_common():
            self.print(f"  {counted(number, 'job')} left: each {reason}")
        if progress.problem:
            self.print(f"  stopped: {progress.problem}")
        if progress.stay:
            self.print(
                "  To let them end where they are: "
                f"manage.py qless_worker --alias {only(name)} {queue} --burst"
            )


def _targets(progress: Progress) -> str:
    if len(progress.targets) == 1:
        return progress.targets[0]
    return f"one of {len(progress.targets)} partitions"
