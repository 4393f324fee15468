"""One thing that is done to many jobs, chunk by chunk; what is left of it fits in a form.

All that match are found anew for each chunk, by looking through the lists from an offset
on. Jobs that leave their list make room for those behind them, so the offset passes over
those only that stay. Others change the lists at the same time, and some verbs change the
order: so the lists are looked through again until there is nothing left to do. What comes
into the selection after it was shown and counted is not touched; so a job that is retried
and fails again is not retried for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core import signing

from django_qless.admin.bulk.verbs import CHUNK, VERBS, Verb
from django_qless.core import Each
from django_qless.selection import Selection

if TYPE_CHECKING:
    from django_qless.core import Brief, Client

SALT = "django_qless.bulk"
VALID = 24 * 3600
"""Seconds within which a run must be begun, or carried on."""

LOOKED_AT = 4000
"""Jobs that one look may have to look at."""
LOOKS = 2
"""How often is looked for one chunk, at most: a first look may find what is done."""
MOST_PASSES = 20
MOST_SHOWN = 20
"""Refusals that are told one by one."""
BURST = 10
"""Seconds whose jobs may be made up for in one chunk."""


class Seen(NamedTuple):
    """A look at a part of the lists."""

    #: Ids of jobs that are to be dealt with.
    wanted: list[str]
    #: How many places were looked at, and whether they were the last.
    places: int
    is_last: bool


class Stale(Exception):
    """A form that was not made here, for this user, or not lately."""


@dataclass(frozen=True)
class Run:
    """How far it is. Immutable: each chunk makes another one."""

    verb_name: str
    #: Whose it is: the primary key of the user, as text, and the alias.
    user: str
    alias: str
    #: What all that match have in common; None if jobs were chosen one by one.
    selection: Mapping[str, str] | None
    #: Chosen jobs that are still to be dealt with.
    jids: Sequence[str]
    #: How many there were to begin with (`exact`), or at least; and to be looked through.
    number: int
    exact: bool
    total: int
    #: Jobs that came into the selection after this time are left alone.
    before: float
    value: Any = None
    rate: int | None = None
    #: The entry in Django's log, once it has begun.
    entry: int | None = None
    #: When the last chunk was begun, by the server's clock.
    at: float = 0.0
    offset: int = 0
    looked: int = 0
    passes: int = 0
    done: int = 0
    #: How many were done when this pass began, and refused in it, and in the one before.
    done_before: int = 0
    refused: int = 0
    refused_before: int = 0
    #: Ids of jobs that were refused lately, and why.
    reasons: Sequence[tuple[str, str]] = field(default_factory=list)
    #: Chosen jobs that the last chunk has dealt with; not kept in the form.
    lately: Sequence[str] = field(default_factory=list)
    finished: bool = False
    stopped: bool = False

    @property
    def verb(self) -> Verb:
        """What is done."""
        return VERBS[self.verb_name]

    @property
    def ended(self) -> bool:
        """Whether no other chunk will follow."""
        return self.finished or self.stopped

    @property
    def refusals(self) -> int:
        """How many jobs it could not be done to, as far as this is known."""
        return self.refused if self.finished else max(self.refused, self.refused_before)

    @property
    def progress(self) -> int:
        """How far it is, of `total`."""
        if self.finished or self.passes:
            return self.total
        return min(self.looked, self.total)

    @property
    def pause(self) -> float:
        """The seconds from the beginning of a chunk to that of the next."""
        return 0.0 if self.rate is None else max(1, min(CHUNK, self.rate)) / self.rate

    def sign(self) -> str:
        """Return it as a text for a form, which nobody can change."""
        members = asdict(replace(self, lately=[]))
        return signing.dumps(members, salt=SALT, compress=True)

    @classmethod
    def read(cls, text: str, *, user: str, alias: str) -> Run:
        """Return the run of a form. Raises Stale."""
        try:
            run = cls(**signing.loads(text, salt=SALT, max_age=VALID))
        except (signing.BadSignature, TypeError):
            raise Stale from None
        if (run.user, run.alias) != (user, alias):
            raise Stale
        return run

    def step(self, client: Client, now: float) -> Run:
        """Deal with the next chunk; return the run as it is then. Raises QlessError.

        `now` is the server's time. Does nothing if the rate does not allow it yet.
        """
        allowed = self._allowance(now)
        if self.ended or allowed < 1:
            return self
        run = replace(self, at=now)
        if run.selection is None:
            return run._through_jids(client, allowed)
        for _look in range(LOOKS):
            run, tried = run._through_lists(client, allowed)
            allowed -= tried
            if run.finished or allowed < 1:
                break
        return run

    def _allowance(self, now: float) -> int:
        """Return how many jobs may be dealt with now, so that the rate is kept."""
        if self.rate is None:
            return CHUNK
        if not self.at:
            return min(CHUNK, self.rate)
        seconds = min(max(0.0, now - self.at), BURST)
        return min(CHUNK, round(self.rate * seconds))

    def _through_jids(self, client: Client, allowed: int) -> Run:
        chunk, rest = self.jids[:allowed], self.jids[allowed:]
        each = self.verb.act(client, chunk, self.value)
        run = self._with(each)
        looked = self.looked + len(chunk)
        return replace(
            run, jids=rest, looked=looked, lately=each.done, finished=not rest
        )

    def _through_lists(self, client: Client, allowed: int) -> tuple[Run, int]:
        """Look at a page; return the run as it is then, and how many jobs were tried."""
        # In the first pass most are still to be dealt with; later ones look for the rest.
        seen = self._look(client, LOOKED_AT if self.passes else CHUNK)
        if len(seen.wanted) > allowed:
            # Again, so that it is known how many places were looked at for so many.
            seen = self._look(client, allowed)
        jids = seen.wanted
        each = self.verb.act(client, jids, self.value) if jids else Each([], {})
        gone = len(each.done) if self.verb.displaces else 0
        run = replace(
            self._with(each),
            offset=self.offset + seen.places - gone,
            looked=self.looked + seen.places,
        )
        return (run._at_end_of_pass() if seen.is_last else run), len(jids)

    def _look(self, client: Client, most: int) -> Seen:
        """Look for at most `most` jobs that are to be dealt with."""
        selection = Selection(**(self.selection or {}))
        if not self.verb.oldest_first:
            page = selection.briefs(
                client, offset=self.offset, count=most, scan=LOOKED_AT
            )
            is_last = page.following is None
        else:
            # The lists of failed jobs begin with the newest: so the offset is from the end.
            end = selection.briefs(client, count=1, scan=1).total - self.offset
            start = max(0, end - most)
            is_last, number = start == 0, max(0, end - start)
            page = selection.briefs(client, offset=start, count=number, scan=number)
            page.jobs.reverse()
        wanted = [brief.jid for brief in page.jobs if self._wants(brief)]
        return Seen(wanted, page.scanned, is_last)

    def _at_end_of_pass(self) -> Run:
        """Return it finished if the pass has found nothing to do, else at the next."""
        if self.done == self.done_before or self.passes + 1 >= MOST_PASSES:
            return replace(self, finished=True)
        return replace(
            self,
            offset=0,
            passes=self.passes + 1,
            done_before=self.done,
            refused_before=self.refused,
            refused=0,
        )

    def _wants(self, brief: Brief) -> bool:
        """Return whether a job is to be dealt with, and was so when they were counted."""
        if not self.verb.wants(brief, self.value):
            return False
        chosen_by_state = self.selection and self.selection.keys() & {"state", "group"}
        if self.verb.renews or chosen_by_state:
            return brief.since <= self.before
        return (brief.put or 0.0) <= self.before

    def _with(self, each: Each) -> Run:
        """Return it with what became of some jobs."""
        reasons = dict(self.reasons) if self.refused else {}
        for jid, why in each.refused.items():
            if len(reasons) < MOST_SHOWN:
                reasons[jid] = why
        return replace(
            self,
            done=self.done + len(each.done),
            refused=self.refused + len(each.refused),
            reasons=list(reasons.items()),
        )
