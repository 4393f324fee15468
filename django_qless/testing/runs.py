"""What became of jobs that ran in a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from django_qless.testing import matching, shown

if TYPE_CHECKING:
    from django_qless.testing.captured import CapturedJob

#: How a run may end: `retried`: it failed and will be run again, `moved`: it goes on in
#: another queue, `lost`: it was cancelled, or put again, while it ran, `released`: it was
#: handed back, `unknown`: this process knows no job of its name.
Outcome = Literal[
    "complete", "failed", "retried", "moved", "lost", "released", "unknown"
]

OUTCOMES: dict[str, Outcome] = {
    "complete": "complete",
    "fail": "failed",
    "retry": "retried",
    "move": "moved",
    "release": "released",
    "unknown": "unknown",
}


@dataclass(frozen=True)
class Run:
    """One run of a job, and how it ended."""

    job: CapturedJob
    outcome: Outcome
    attempt: int = 1
    """1 for the first run of the job, one more after each retry."""
    result: Any = field(default=None, repr=False)
    """What the function returned."""
    exception: BaseException | None = None
    """What it raised."""
    group: str = ""
    """The failure group, if it failed."""
    message: str = field(default="", repr=False)
    """What is kept of the failure: mostly the traceback."""

    def __repr__(self) -> str:
        group = f" in group {self.group!r}" if self.group else ""
        raised = f": {self.exception!r}" if self.exception is not None else ""
        again = f", attempt {self.attempt}" if self.attempt > 1 else ""
        return f"<{self.outcome}{group}{again} {self.job!r}{raised}>"

    @property
    def name(self) -> str:
        """The name of the job type."""
        return self.job.name

    @property
    def jid(self) -> str:
        """The job's id."""
        return self.job.jid

    @property
    def queue(self) -> str:
        """The queue it was taken from."""
        return self.job.queue

    @property
    def args(self) -> list[Any]:
        """The positional arguments, rows loaded now."""
        return self.job.args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments, rows loaded now."""
        return self.job.kwargs


class Runs(list[Run]):
    """Runs in the order in which they began; a list that knows how to look."""

    def __repr__(self) -> str:
        return f"<{len(self)} runs:\n{shown.listing(self, '    none')}>"

    def of(self, job: Any, *args: Any, **kwargs: Any) -> Runs:
        """Return those of this job, with these arguments if any are given."""
        wanted = matching.Wanted(job, args, kwargs)
        return Runs(each for each in self if wanted.fits(each.job))

    def ended(self, outcome: Outcome) -> Runs:
        """Return those that ended so."""
        return Runs(each for each in self if each.outcome == outcome)

    @property
    def names(self) -> list[str]:
        """The names of the job types, in order."""
        return [each.name for each in self]

    @property
    def failures(self) -> Runs:
        """Those that failed, whether they will be run again or not."""
        return Runs(each for each in self if each.outcome in ("failed", "retried"))

    @property
    def only(self) -> Run:
        """The one run there is. Raises AssertionError if there are none, or more."""
        if len(self) != 1:
            raise AssertionError(f"There is not one run, but {self!r}")
        return self[0]
