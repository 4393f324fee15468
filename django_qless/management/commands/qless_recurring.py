"""`manage.py qless_recurring`: lists, applies, runs, pauses and removes recurring jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless.job_types.discovery import discover
from django_qless.management.base import SubcommandsCommand
from django_qless.management.output import format_time, table
from django_qless.operations.objects import recurring
from django_qless.schedules import declared as declared_schedules
from django_qless.schedules.handle import RecurringHandle

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = ("name", "when", "next", "last", "jobs", "owner", "state")


class Command(SubcommandsCommand):
    help = (
        "Lists recurring jobs; applies what the code declares; runs, pauses, resumes, "
        "removes and resets them."
    )

    def add_subcommands(self) -> None:
        self.add("list", self.list, "recurring jobs and when they run")
        self.add("sync", self.sync, "apply what the code declares")
        for name, text in (
            ("run", "enqueue a job now, besides the schedule"),
            ("pause", "enqueue no jobs until it is resumed"),
            ("resume", "enqueue jobs again"),
            (
                "remove",
                "remove it; one that the code declares stays removed until it is reset",
            ),
            ("reset", "restore what the code declares, whatever was changed since"),
        ):
            self.add(name, self.change, text).add_argument(
                "names", nargs="+", metavar="name", help="as `list` shows it"
            )

    def list(self, **options: Any) -> None:
        """Print the recurring jobs, and declared ones that are not on the server."""
        view = recurring.using_alias(self.alias)
        handles = sorted(view, key=lambda handle: handle.id)
        discover()
        there = {handle.id for handle in handles}
        missing = sorted(declared_schedules.declared_on(self.alias).keys() - there)
        if self.as_json:
            self.print_json([*map(schedule_data, handles)])
            return
        rows = [*map(schedule_row, handles)]
        rows += [[name, "", "", "", "", "code", "not applied"] for name in missing]
        self.print(table(HEAD, rows, "no recurring jobs"))
        for handle in handles:
            if handle.trouble:
                self.print(f"{handle.id}: {handle.trouble}")
        if missing:
            self.print(
                "not applied: declared in code, but not on the server. `sync` adds new "
                "ones, `reset` restores those that were removed"
            )

    def sync(self, **options: Any) -> None:
        """Apply what the code declares."""
        discover()
        result = declared_schedules.sync_schedules(self.alias, anyway=True)
        if self.as_json:
            data = result._asdict()
            del data["waits"]
            self.print_json(data)
        else:
            self.print_changes(result)
        if result.failed:
            raise CommandError(
                "not applied: "
                + "; ".join(f"{name}: {why}" for name, why in result.failed.items())
            )

    def print_changes(self, result: declared_schedules.SyncResult) -> None:
        """Print what was applied."""
        for text, names in (
            ("added", result.added),
            ("changed", result.changed),
            ("removed", result.removed),
            ("kept as an operator changed it (see reset)", result.kept),
            ("kept, because it is a dynamic schedule", result.by_hand),
        ):
            for name in names:
                self.report(f"{text}: {name}")
        for name, project in result.others.items():
            self.print(declared_schedules.OF_ANOTHER % (name, project, project))
        if result == declared_schedules.NO_CHANGES:
            self.report("nothing to do: the server has what the code declares")

    def change(self, *, subcommand: str, names: Sequence[str], **options: Any) -> None:
        """Run, pause, resume, remove or reset recurring jobs."""
        if subcommand == "reset":
            discover()
        else:
            # All are checked before any is changed.
            for name in names:
                if self.client.schedule_get(name) is None:
                    raise CommandError(
                        f"There is no recurring job {name!r} in {self.alias!r}: "
                        "`qless_recurring list` shows their names."
                    )
        changes = []
        for name in names:
            result = getattr(RecurringHandle(self.alias, name), subcommand)()
            changes.append({"name": name, "done": subcommand})
            if subcommand == "run":
                changes[-1]["jid"] = result.jid
        if self.as_json:
            self.print_json(changes)
            return
        for each in changes:
            jid = f" as {each['jid']}" if "jid" in each else ""
            self.report(f"{each['done']}: {each['name']}{jid}")


def schedule_row(handle: RecurringHandle) -> list[str]:
    """Return a recurring job as cells of the table, by HEAD."""
    times = (handle.next, handle.last)
    return [
        handle.id,
        handle.words,
        *(format_time(when.timestamp()) if when else "" for when in times),
        f"{handle.count:,}",
        handle.owner,
        handle.state,
    ]


def schedule_data(handle: RecurringHandle) -> dict[str, Any]:
    """Return a recurring job as JSON values."""
    return {
        "name": handle.id,
        "job": handle.name,
        "queue": handle.queue,
        "when": handle.words,
        "every": handle.every,
        "cron": handle.cron or None,
        "timezone": handle.timezone or None,
        "missed": handle.missed,
        "next": handle.next and handle.next.isoformat(),
        "last": handle.last and handle.last.isoformat(),
        "count": handle.count,
        "owner": handle.owner,
        "paused": handle.paused,
        "edited": handle.edited,
        "trouble": handle.trouble or None,
    }
