"""`manage.py qless_jobs`: jobs listed, shown, tried again, cancelled, moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless.management import numbers
from django_qless.management.base import NO_JOBS, QlessCommand, add_no_input
from django_qless.management.cancelling import cancel_all, left
from django_qless.management.job_text import as_data, as_line, as_text, shown_result
from django_qless.management.words import counted, table
from django_qless.overview import jobs
from django_qless.selection import ALL_STATES, SEARCHED_STATES, Selection

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

CHOICES = ("queue", "state", "tag", "group", "klass", "worker")
CHUNK = 250


class Command(QlessCommand):
    help = "Lists, shows, retries, cancels and moves jobs."

    def add_arguments(self, parser: CommandParser) -> None:
        words = parser.add_subparsers(dest="word", required=True, metavar="word")
        page = self.add_word(words, "list", "a page of the jobs that are chosen")
        self.add_choices(page, SEARCHED_STATES)
        page.add_argument("--count", type=numbers.whole, default=25)
        page.add_argument("--offset", type=lambda t: numbers.whole(t, least=0))
        show = self.add_word(words, "show", "all that is known of a job")
        show.add_argument("jid")
        for word, text in (
            ("retry", "let failed jobs begin anew, each in its own queue"),
            ("cancel", "remove jobs, also while they run"),
        ):
            parser_of_word = self.add_word(words, word, text)
            parser_of_word.add_argument("jids", nargs="*", metavar="jid")
            self.add_choices(parser_of_word)
            add_no_input(parser_of_word)
        move = self.add_word(words, "move", "put jobs into another queue, anew")
        move.add_argument("to", metavar="queue")
        move.add_argument("jids", nargs="+", metavar="jid")
        move.add_argument("--delay", type=numbers.seconds, default=0.0)

    def add_word(self, words: Any, word: str, text: str) -> Any:
        """Add one of the command's words, with the options that all have."""
        parser = words.add_parser(word, help=text)
        super().add_arguments(parser)
        return parser

    def add_choices(self, parser: Any, states: Sequence[str] = ALL_STATES) -> None:
        """Add the options that choose jobs."""
        parser.add_argument("--queue")
        parser.add_argument("--state", choices=states)
        parser.add_argument("--tag")
        parser.add_argument("--group", help="a failure group")
        parser.add_argument("--worker", help="who runs the job")
        parser.add_argument(
            "--klass", help="the name of the job; * and ? stand for any"
        )

    def act(self, **options: Any) -> None:
        getattr(self, f"do_{options['word']}")(options)

    def do_list(self, options: dict[str, Any]) -> None:
        """Print a page of jobs."""
        page = jobs.using_alias(self.alias).list(
            offset=options["offset"] or 0, count=options["count"], **chosen(options)
        )
        if options["json"]:
            self.print_json(
                {
                    "jobs": [as_data(handle) for handle in page.handles],
                    "scanned": page.scanned,
                    "total": page.total,
                    "following": page.following,
                }
            )
            return
        lines = [as_line(handle) for handle in page.handles]
        head = ["jid", "job", "queue", "state", "priority", "retries left", "tags"]
        self.say(table(head, lines, "no jobs"))
        if page.following is not None:
            self.say(
                f"\nlooked at {page.scanned:,} of {page.total:,}; "
                f"go on with --offset {page.following}"
            )

    def do_show(self, options: dict[str, Any]) -> None:
        """Print all that is known of a job."""
        handle = jobs.using_alias(self.alias)[options["jid"]]
        found = self.client.result(handle.jid) if handle.state == "complete" else None
        result = shown_result(handle, found)
        if options["json"]:
            self.print_json(as_data(handle) | {"result": result})
        else:
            self.say(as_text(handle, result))

    def do_retry(self, options: dict[str, Any]) -> None:
        """Let failed jobs begin anew."""
        jids = self.jids(options, failed=True)
        if not jids:
            self.say(NO_JOBS)
            return
        self.confirm(
            f"Retry {counted(len(jids), 'job')}?", asked=self.is_asked(options)
        )
        done = sum(self.client.revive(chunk) for chunk in chunks(jids))
        left = (
            f"; {len(jids) - done:,} had not failed, or do not exist"
            if done < len(jids)
            else ""
        )
        self.say(f"back in their queues: {counted(done, 'job')}{left}")

    def do_cancel(self, options: dict[str, Any]) -> None:
        """Remove jobs."""
        jids = self.jids(options)
        if not jids:
            self.say(NO_JOBS)
            return
        self.confirm(
            f"Cancel {counted(len(jids), 'job')}?", asked=self.is_asked(options)
        )
        done, refused = cancel_all(self.client, jids)
        self.say(f"cancelled: {counted(len(done), 'job')}")
        for line in left(refused):
            self.say(line)

    def do_move(self, options: dict[str, Any]) -> None:
        """Put jobs into another queue."""
        handles = jobs.using_alias(self.alias)
        for jid in options["jids"]:
            handles[jid].move(options["to"], delay=options["delay"])
            self.say(f"{jid} is in {options['to']}")

    def jids(self, options: dict[str, Any], *, failed: bool = False) -> list[str]:
        """Return the ids that were given, or those of all that is chosen."""
        choices = chosen(options)
        if bool(options["jids"]) == bool(choices):
            raise CommandError(
                "Give either the ids of jobs, or what chooses them: "
                + ", ".join(f"--{name}" for name in CHOICES)
            )
        if options["jids"]:
            return options["jids"]  # type: ignore[no-any-return]
        if failed:
            choices["state"] = "failed"
        return Selection(**choices).jids(self.client)

    def is_asked(self, options: dict[str, Any]) -> bool:
        """Return whether a person is to confirm: when the jobs were not named one by one."""
        return options["interactive"] and not options["jids"]


def chosen(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that choose jobs."""
    return {name: options[name] for name in CHOICES if options[name] is not None}


def chunks(jids: list[str]) -> list[list[str]]:
    """Cut ids into what one call takes in a short time."""
    return [jids[at : at + CHUNK] for at in range(0, len(jids), CHUNK)]
