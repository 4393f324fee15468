"""`manage.py qless_recurring`: what recurs, and when; paused, run, removed, reset."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.utils.timezone import get_current_timezone

from django_qless.discovery import discover
from django_qless.management.base import QlessCommand
from django_qless.management.words import table
from django_qless.overview import recurring
from django_qless.schedules import declared as declared_schedules
from django_qless.schedules import row_endings
from django_qless.schedules.handle import RecurringHandle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.core.management.base import CommandParser

HEAD = ("name", "when", "next", "last", "jobs", "owner", "state")


class Command(QlessCommand):
    help = (
        "Lists recurring jobs; brings what the code declares to the server; runs, "
        "pauses, resumes, removes and resets them."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        words = parser.add_subparsers(dest="word", required=True, metavar="word")
        self.add_word(words, "list", "what recurs, and when")
        self.add_word(words, "sync", "apply what the code declares by now")
        for word, text in (
            ("run", "put a job now, beside the rhythm"),
            ("pause", "put none until it is resumed"),
            ("resume", "recur again"),
            ("remove", "end it; one that the code declares stays away until reset"),
            ("reset", "make it what the code declares, whatever was changed since"),
        ):
            self.add_word(words, word, text).add_argument(
                "names", nargs="+", metavar="name", help="as `list` shows it"
            )

    def add_word(self, words: Any, word: str, text: str) -> Any:
        """Add one of the command's words, with the options that all have."""
        parser = words.add_parser(word, help=text, description=text)
        super().add_arguments(parser)
        return parser

    def act(self, **options: Any) -> None:
        view = recurring.using_alias(self.alias)
        word, names = options["word"], options.get("names", ())
        if word == "list":
            handles = sorted(view, key=lambda handle: handle.id)
            self.do_list(handles, as_json=options["json"])
        elif word == "sync":
            self.do_sync(as_json=options["json"])
        else:
            self.do(word, names, as_json=options["json"])

    def do_list(self, handles: Sequence[RecurringHandle], *, as_json: bool) -> None:
        """Print the schedules, and those declared ones that an operator has removed."""
        discover()
        there = {handle.id for handle in handles}
        missing = sorted(declared_schedules.declared_on(self.alias).keys() - there)
        if as_json:
            self.print_json([as_data(handle) for handle in handles])
            return
        rows = [row_of(handle) for handle in handles]
        rows += [[name, "", "", "", "", "code", "not applied"] for name in missing]
        self.say(table(HEAD, rows, "nothing recurs"))
        for handle in handles:
            if handle.trouble:
                self.say(f"{handle.id}: {handle.trouble}")
        if missing:
            self.say(
                "not applied: declared, but not on the server: `sync` adds what is new, "
                "`reset` brings back what was removed"
            )

    def do_sync(self, *, as_json: bool) -> None:
        """Apply what the code declares."""
        discover()
        done = declared_schedules.apply_schedules(self.alias, anyway=True)
        row_endings.listen_to_all(self.alias)
        if as_json:
            told = done._asdict()
            del told["waits"]
            self.print_json(told)
        else:
            self.tell(done)
        if done.failed:
            raise CommandError(
                "not applied: "
                + "; ".join(f"{name}: {why}" for name, why in done.failed.items())
            )

    def tell(self, done: declared_schedules.Applied) -> None:
        """Print what was applied."""
        for word, names in (
            ("added", done.added),
            ("changed", done.changed),
            ("removed", done.removed),
            ("left as an operator has it (see reset)", done.kept),
            ("left, because it was made by hand", done.by_hand),
        ):
            for name in names:
                self.say(f"{word}: {name}")
        for name, project in done.others.items():
            self.say(declared_schedules.OF_ANOTHER % (name, project, project))
        if done == declared_schedules.NOTHING:
            self.say("nothing to do: what the code declares is there")

    def do(self, word: str, names: Sequence[str], *, as_json: bool) -> None:
        """Do to each of these schedules what a word says."""
        if word == "reset":
            discover()
        for name in names:
            # All are looked at before anything is done.
            if word != "reset" and self.client.schedule_get(name) is None:
                raise CommandError(
                    f"There is no recurring job {name!r} in {self.alias!r}: "
                    "`qless_recurring list` shows their names."
                )
        done = []
        for name in names:
            outcome = getattr(RecurringHandle(self.alias, name), word)()
            done.append({"name": name, "done": word})
            if word == "run":
                done[-1]["jid"] = outcome.jid
        if as_json:
            self.print_json(done)
            return
        for each in done:
            jid = f" as {each['jid']}" if "jid" in each else ""
            self.say(f"{each['done']}: {each['name']}{jid}")


def row_of(handle: RecurringHandle) -> list[str]:
    """Return the line of a schedule in the list."""
    return [
        handle.id,
        handle.words,
        moment(handle.next),
        moment(handle.last),
        f"{handle.count:,}",
        handle.owner,
        handle.state,
    ]


def as_data(handle: RecurringHandle) -> dict[str, Any]:
    """Return a schedule as JSON has it."""
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


def moment(when: datetime | None) -> str:
    """Return a time as the project's time zone has it, "" for none."""
    if when is None:
        return ""
    return when.astimezone(get_current_timezone()).strftime("%Y-%m-%d %H:%M:%S")
