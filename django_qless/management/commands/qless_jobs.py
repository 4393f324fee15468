"""`manage.py qless_jobs`: lists, shows, retries, cancels and moves jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless.conf.sealing import open_value
from django_qless.exceptions import Fail
from django_qless.job_types.redaction import HIDDEN, may_show_output
from django_qless.management.base import (
    SubcommandsCommand,
    add_no_input,
    integer,
    seconds,
)
from django_qless.management.output import (
    JOB_COLUMNS,
    changed_text,
    counted,
    displayed_result,
    job_data,
    job_row,
    job_text,
    table,
)
from django_qless.operations.bulk import change_jobs
from django_qless.operations.job_query import ALL_STATES, SEARCHED_STATES, JobQuery
from django_qless.operations.objects import jobs

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

OUTPUT_HIDDEN = f"{HIDDEN} The job has, or may have, sensitive values.\n"

FILTERS = ("queue", "state", "tag", "group", "klass", "worker")

JID = "the id of a job"


class Command(SubcommandsCommand):
    help = "Lists, shows, retries, cancels and moves jobs."
    names_queue = True

    def add_subcommands(self) -> None:
        page = self.add("list", self.list, "a page of the jobs that match")
        add_filters(page, SEARCHED_STATES)
        page.add_argument(
            "--count",
            type=integer(),
            default=25,
            help="how many to print (default: 25)",
        )
        page.add_argument(
            "--offset", type=integer(least=0), help="go on where the last page ended"
        )
        show = self.add("show", self.show, "all details of a job")
        show.add_argument("jid", help=JID)
        tail = self.add("tail", self.tail, "the end of a detached job's output")
        tail.add_argument("jid", help=JID)
        for name, run, text in (
            ("retry", self.retry, "enqueue failed jobs again, each in its own queue"),
            ("cancel", self.cancel, "remove jobs, also running ones"),
        ):
            parser = self.add(name, run, text)
            parser.add_argument(
                "jids", nargs="*", metavar="jid", help=f"{JID}; or say which by options"
            )
            add_filters(parser)
            add_no_input(parser)
        move = self.add(
            "move", self.move, "move jobs to a queue, where they start again"
        )
        move.add_argument("to", metavar="queue", help="the queue to move them to")
        move.add_argument("jids", nargs="+", metavar="jid", help=JID)
        move.add_argument(
            "--delay",
            type=seconds,
            default=0.0,
            metavar="SECONDS",
            help="seconds after which they may start (default: 0)",
        )

    def list(
        self, *, alias: str, count: int, offset: int | None, **options: Any
    ) -> None:
        """Print a page of jobs."""
        page = jobs.using_alias(alias).list(
            offset=offset or 0, count=count, **filters(options)
        )
        if self.as_json:
            data = page._asdict()
            handles = data.pop("handles")
            self.print_json({"jobs": [*map(job_data, handles)], **data})
            return
        self.print(table(JOB_COLUMNS, [*map(job_row, page.handles)], "no jobs"))
        if page.following is not None:
            self.print(
                f"\nexamined {page.scanned:,} of {page.total:,}; "
                f"continue with --offset {page.following}"
            )

    def show(self, *, jid: str, **options: Any) -> None:
        """Print all details of a job."""
        handle = jobs.using_alias(self.alias)[jid]
        found = self.client.result(jid) if handle.state == "complete" else None
        found = _opened(found)
        result = displayed_result(handle, found)
        if self.as_json:
            self.print_json(job_data(handle) | {"result": result})
        else:
            self.print(job_text(handle, result))

    def tail(self, *, jid: str, **options: Any) -> None:
        """Print the end of a detached job's output."""
        run = self.client.detached_run(jid)
        if run is None:
            raise CommandError(
                f"No process of the job {jid} is known: it is not detached, has not "
                "started, or ended more than a day ago."
            )
        shown = self.may_show_output(jid)
        if self.as_json:
            hidden = {} if shown else {"output": HIDDEN}
            self.print_json(run._asdict() | hidden)
            return
        self.stdout.write(run.output if shown else OUTPUT_HIDDEN, ending="")
        if run.end:
            self.stderr.write(f"{run.end}")

    def may_show_output(self, jid: str) -> bool:
        """Return whether people may see the job's output; not if it is unknown."""
        job = self.client.get(jid)
        return job is not None and may_show_output(job.klass, job.data)

    def retry(self, **options: Any) -> None:
        """Restart failed jobs."""
        jids = self.confirmed_jids("Retry", options, state="failed")
        if jids:
            run = change_jobs(self.client, "retry", jids)
            self.report(changed_text(run, "retried"), is_warning=run.refused > 0)

    def cancel(self, **options: Any) -> None:
        """Remove jobs."""
        jids = self.confirmed_jids("Cancel", options)
        if jids:
            run = change_jobs(self.client, "cancel", jids)
            self.report(changed_text(run, "canceled"), is_warning=run.refused > 0)

    def move(
        self, *, to: str, jids: Sequence[str], delay: float, **options: Any
    ) -> None:
        """Restart jobs in another queue."""
        handles = jobs.using_alias(self.alias)
        for jid in jids:
            handles[jid].move(to, delay=delay)
            self.report(f"moved: {jid} to {to}")

    def confirmed_jids(
        self, verb: str, options: dict[str, Any], **implied: str
    ) -> Sequence[str]:
        """Return the ids given, or those of all matching jobs, once that is confirmed."""
        jids: Sequence[str] = options["jids"]
        conditions = filters(options)
        if bool(jids) == bool(conditions):
            raise CommandError(
                "Give either the ids of jobs, or filters: "
                + ", ".join(f"--{name}" for name in FILTERS)
            )
        if jids:
            return jids
        jids = JobQuery(**conditions | implied).jids(self.client)
        if not jids:
            self.report("no jobs match: nothing to do")
        elif options["interactive"]:
            self.confirm(f"{verb} {counted(len(jids), 'job')}?")
        return jids


def add_filters(parser: CommandParser, states: Sequence[str] = ALL_STATES) -> None:
    """Add the options that filter jobs."""
    parser.add_argument(
        "--queue", help="the queue that the job is in (a completed job is in none)"
    )
    parser.add_argument("--state", choices=states, help="the state of the job")
    parser.add_argument("--tag", help="a tag of the job")
    parser.add_argument("--group", help="the failure group of the job")
    parser.add_argument("--worker", help="the worker that holds the job")
    parser.add_argument(
        "--klass",
        help="the name of its type, such as shop.jobs.send; * and ? stand for any",
    )


def filters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the filters that were given."""
    return {name: options[name] for name in FILTERS if options[name] is not None}


def _opened(result: Any) -> Any:
    """Return a result as the job returned it; a sealed one that no key opens as it is."""
    try:
        return open_value(result)
    except Fail:
        return result
