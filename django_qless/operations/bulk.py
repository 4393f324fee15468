"""Bulk changes: the same change to many jobs, chunk by chunk.

A `BulkRun` is an immutable value: each `step` applies one chunk and returns the next run,
so that a caller can keep it between two calls (in a form, in a file), pace it and stop.

For each chunk the jobs that match are looked up again, from an offset on. Jobs that leave
their list make room for those behind them, so the offset only passes over those that
stay. Other clients change the lists meanwhile, and some changes reorder them; so the
lists are read again until a pass finds nothing to do. Jobs that enter the selection after
they were counted are left alone: a job that is retried and fails again is not retried
for ever.

Jobs that are chosen one by one are changed in one pass. Only those that were refused
because others depend on them are tried again, as long as that helps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.core import BadArgument, BulkResult, arguments
from django_qless.core.states import IN_QUEUE
from django_qless.operations.changes import CHANGES, Change
from django_qless.operations.job_query import JobQuery

if TYPE_CHECKING:
    from django_qless.core import Brief, Client

CHUNK = 250
"""Jobs that one call changes."""
LOOKED_AT = 4000
"""Jobs that one lookup may read."""
LOOKUPS = 2
"""Lookups for one chunk, at most: the first may only find jobs that are done."""
MOST_PASSES = 20
MOST_REASONS = 20
"""Refusals that are kept with their reasons."""
BURST = 10
"""Seconds without a step whose jobs may be made up for in one chunk."""
COUNTED = 2000
"""Jobs that counting reads: even with the longest names it takes a moment only."""


FILTERS = tuple(each.name for each in fields(JobQuery))
"""The names by which jobs can be selected."""


class Counted(NamedTuple):
    """The number of jobs in a selection."""

    number: int
    exact: bool
    """True if there are no others; otherwise there are at least `number`."""
    total: int
    """Jobs in the lists that have to be searched."""


def count(client: Client, selection: JobQuery, *, seconds: float = 0) -> Counted:
    """Count the jobs of a selection, exactly where the server keeps a list of them.

    Others are counted among the first two thousand jobs. If none of those matches, the
    search goes on for at most `seconds`, until it finds one.
    """
    if _is_list(filters_of(selection)):
        total = selection.briefs(client, count=1, scan=1).total
        return Counted(total, True, total)
    page = selection.briefs(client, count=COUNTED, scan=COUNTED)
    if not page.jobs and page.following is not None:
        page = selection.briefs(client, offset=page.following, count=1, seconds=seconds)
    return Counted(len(page.jobs), page.following is None, page.total)


def filters_of(selection: JobQuery) -> dict[str, str]:
    """Return the filters of a selection that are set."""
    return {name: value for name, value in asdict(selection).items() if value}


def selection_for(change: Change, filters: Mapping[str, str]) -> JobQuery:
    """Return a selection of jobs that can be changed. Raises BadArgument."""
    given = dict(filters)
    if change.state and given.setdefault("state", change.state) != change.state:
        raise BadArgument(
            f"state must be {change.state} to {change.name} jobs, not "
            f"{arguments.quoted(given['state'])}"
        )
    if given.get("state") == "canceled":
        raise BadArgument(
            f"canceled jobs are gone and nothing can {change.name} them: put one again "
            "on its own page"
        )
    return JobQuery(**given)


def _is_list(filters: Mapping[str, str]) -> bool:
    """Return whether the server has a list of exactly these jobs, and its length."""
    names = filters.keys()
    if names == {"queue", "state"}:
        return filters["state"] in IN_QUEUE
    if names == {"group", "state"}:
        return True
    return len(names) == 1 and not names & {"queue", "klass", "jid"}


class _Lookup(NamedTuple):
    wanted: list[str]
    places: int
    is_last: bool


@dataclass(frozen=True)
class BulkRun:
    """The progress of one change to many jobs. Each step returns the next run."""

    change_name: str
    selection: Mapping[str, str] | None
    """The filters that all jobs match; None if the jobs were chosen one by one."""
    jids: Sequence[str]
    """Chosen jobs that are still to be changed."""
    number: int
    """Number of jobs at the beginning; there may be more, unless `exact`."""
    exact: bool
    total: int
    """Jobs that have to be searched."""
    before: float
    """Jobs that entered the selection after this time are left alone."""
    value: Any = None
    rate: int | None = None
    """Jobs per second, at most."""
    at: float = 0.0
    """The server's time at the last chunk."""
    offset: int = 0
    looked: int = 0
    passes: int = 0
    done: int = 0
    done_before: int = 0
    """Jobs that were done when this pass began."""
    refused: int = 0
    """Jobs refused in this pass."""
    refused_before: int = 0
    """Jobs refused in the pass before."""
    reasons: Sequence[tuple[str, str]] = field(default_factory=list)
    """Ids of jobs refused lately, and why."""
    again: Sequence[str] = field(default_factory=list)
    """Chosen jobs that the next pass will try again."""
    lately: Sequence[str] = field(default_factory=list)
    """Chosen jobs that the last chunk has changed; not kept by `as_dict`."""
    finished: bool = False
    stopped: bool = False

    @classmethod
    def on_jobs(cls, change_name: str, jids: Sequence[str], now: float) -> BulkRun:
        """Return the run on jobs that were chosen one by one."""
        jids = list(dict.fromkeys(jids))
        number = len(jids)
        return cls(
            change_name,
            selection=None,
            jids=jids,
            number=number,
            exact=True,
            total=number,
            before=now,
            finished=not jids,
        )

    @property
    def change(self) -> Change:
        """The change that is made."""
        return CHANGES[self.change_name]

    @property
    def ended(self) -> bool:
        """True if no other chunk will follow."""
        return self.finished or self.stopped

    @property
    def refusals(self) -> int:
        """The number of jobs that were refused, as far as it is known."""
        return self.refused if self.finished else max(self.refused, self.refused_before)

    @property
    def progress(self) -> int:
        """The progress, of `total`."""
        if self.finished or self.passes:
            return self.total
        return min(self.looked, self.total)

    @property
    def pause(self) -> float:
        """The seconds from the start of one chunk to the start of the next."""
        return 0.0 if self.rate is None else min(CHUNK, self.rate) / self.rate

    def as_dict(self) -> dict[str, Any]:
        """Return the run as JSON values, from which `BulkRun(**values)` continues."""
        return asdict(replace(self, lately=[]))

    def step(self, client: Client, now: float) -> BulkRun:
        """Change the next chunk of jobs; return the run after it. Raises QlessError.

        `now` is the server's time. Does nothing if the rate does not allow it yet.
        """
        allowed = self._allowance(now)
        if self.ended or allowed < 1:
            return self
        run = replace(self, at=now)
        if run.selection is None:
            return run._change_chosen(client, allowed)
        for _lookup in range(LOOKUPS):
            run, tried = run._change_listed(client, allowed)
            allowed -= tried
            if run.finished or allowed < 1:
                break
        return run

    def _allowance(self, now: float) -> int:
        """Return how many jobs may be changed now within the rate."""
        if self.rate is None:
            return CHUNK
        if not self.at:
            return min(CHUNK, self.rate)
        seconds = min(max(0.0, now - self.at), BURST)
        return min(CHUNK, round(self.rate * seconds))

    def _change_chosen(self, client: Client, allowed: int) -> BulkRun:
        """Change the next jobs; of a change with dependents first, the last ones."""
        rest, chunk, again = self.jids[allowed:], self.jids[:allowed], self.again
        if self.change.dependents_first:
            # In lists, jobs mostly follow those that they depend on.
            rest, chunk = self.jids[:-allowed], self.jids[-allowed:]
        each = self._apply(client, chunk)
        if self.change.dependents_first:
            again = [*(jid for jid in chunk if jid in each.refused), *again]
        run = replace(
            self._with(each),
            jids=rest,
            again=again,
            looked=self.looked + len(chunk),
            lately=each.done,
        )
        if rest:
            return run
        tried = run.done - run.done_before + run.refused
        # The server finds the order within one call, so that another would not help.
        if not again or tried == len(chunk):
            return replace(run, finished=True)
        return run._at_end_of_pass()

    def _apply(self, client: Client, jids: Sequence[str]) -> BulkResult:
        return self.change.apply(client, jids, self.value)

    def _change_listed(self, client: Client, allowed: int) -> tuple[BulkRun, int]:
        """Change what one lookup finds; return the next run and the jobs tried."""
        # In the first pass most jobs need the change; later passes look for the rest.
        found = self._look_up(client, LOOKED_AT if self.passes else CHUNK)
        if len(found.wanted) > allowed:
            # Again, to learn how many places hold exactly the allowed jobs.
            found = self._look_up(client, allowed)
        jids = found.wanted
        each = self._apply(client, jids) if jids else BulkResult([], {})
        gone = len(each.done) if self.change.displaces else 0
        run = replace(
            self._with(each),
            offset=self.offset + found.places - gone,
            looked=self.looked + found.places,
        )
        return (run._at_end_of_pass() if found.is_last else run), len(jids)

    def _look_up(self, client: Client, most: int) -> _Lookup:
        """Return at most `most` jobs that need the change."""
        selection = JobQuery(**(self.selection or {}))
        if not self.change.oldest_first:
            page = selection.briefs(
                client, offset=self.offset, count=most, scan=LOOKED_AT
            )
            is_last = page.following is None
        else:
            # Lists of failed jobs start with the newest: the offset is from the end.
            end = selection.briefs(client, count=1, scan=1).total - self.offset
            start = max(0, end - most)
            is_last, number = start == 0, max(0, end - start)
            page = selection.briefs(client, offset=start, count=number, scan=number)
            page.jobs.reverse()
        wanted = [brief.jid for brief in page.jobs if self._wants(brief)]
        return _Lookup(wanted, page.scanned, is_last)

    def _at_end_of_pass(self) -> BulkRun:
        """Return the run finished if the pass changed nothing, else at its next pass."""
        if self.done == self.done_before or self.passes + 1 >= MOST_PASSES:
            return replace(self, finished=True)
        return replace(
            self,
            offset=0,
            jids=self.again,
            again=[],
            passes=self.passes + 1,
            done_before=self.done,
            refused_before=self.refused,
            refused=0,
        )

    def _wants(self, brief: Brief) -> bool:
        """Return whether a job needs the change, and was counted at the beginning."""
        if not self.change.wants(brief, self.value):
            return False
        chosen_by_state = self.selection and self.selection.keys() & {"state", "group"}
        if self.change.renews or chosen_by_state:
            return brief.since <= self.before
        return (brief.put or 0.0) <= self.before

    def _with(self, each: BulkResult) -> BulkRun:
        """Return the run with the outcome of one call."""
        reasons = dict(self.reasons) if self.refused else {}
        for jid, why in each.refused.items():
            if len(reasons) < MOST_REASONS:
                reasons[jid] = why
        return replace(
            self,
            done=self.done + len(each.done),
            refused=self.refused + len(each.refused),
            reasons=list(reasons.items()),
        )


def change_jobs(client: Client, change_name: str, jids: Sequence[str]) -> BulkRun:
    """Change these jobs; return the finished run. Raises QlessError."""
    now = float(client.meta()["now"])
    run = BulkRun.on_jobs(change_name, jids, now)
    while not run.ended:
        run = run.step(client, now)
    return run
