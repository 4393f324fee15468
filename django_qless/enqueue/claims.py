"""Unique keys that hold in all namespaces of an alias: claimed first, then the job is put.

The namespace that the key names keeps who has it (`lua/claims/`), and hears of the end of
the job by the outbox of the job's namespace. If a key is claimed already, that namespace is
asked whether the job still counts, for it alone knows.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless import conf
from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.core import DuplicateJob, QlessError
from django_qless.core.commands.claims import Claim, ClaimReply
from django_qless.core.exceptions import REFUSALS
from django_qless.core.request import Steps, adrive, drive
from django_qless.enqueue.request import EnqueueBatch, EnqueueRequest
from django_qless.exceptions import InvalidOption

if TYPE_CHECKING:
    from django_qless.job_types.options import Options
    from django_qless.job_types.registry import JobType

#: Returns the client of a namespace, sync or async.
ClientOf = Callable[[str], Any]

#: Keys that one call claims.
MOST = 1000

# How often a claim is tried again whose holder has ended meanwhile.
ROUNDS = 3


class Holder(NamedTuple):
    """The job that has a key, and its namespace."""

    jid: str
    home: str


def claimed_in(alias: str, key: str) -> str:
    """Return the namespace in which a key is claimed.

    By rendezvous: another namespace takes its share of the keys, and moves no others.
    """
    names = conf.namespaces_of(routing.alias_of(alias))
    return max(
        names, key=lambda name: hashlib.sha256(f"{name}\n{key}".encode()).digest()
    )


def batch_of(requests: Sequence[EnqueueRequest]) -> EnqueueBatch:
    """Return the batch that enqueues these jobs. Raises InvalidOption."""
    if not any(map(is_claimed, requests)):
        return EnqueueBatch(requests)
    for request in requests:
        if request.plan.outbox:
            raise InvalidOption(
                f"{request.plan.job_type.name}: a key with "
                'unique_scope="global" is claimed by the process that enqueues, so the '
                "job cannot go by way of an outbox: write on_commit=True"
            )
    return ClaimedBatch(requests)


def is_claimed(request: EnqueueRequest) -> bool:
    """Return whether a job needs a claim before it is put."""
    return bool(request.key) and request.plan.claims


def refuse(whose: str, job_type: JobType, options: Options) -> None:
    """Raise InvalidOption for a unique job of `whose` whose key is to be claimed."""
    if options.unique_scope == "global":
        raise InvalidOption(
            f"{whose}: the key of {job_type.name} is to be claimed in all namespaces, before "
            "the job is put, and here it is put with others in one call: give it "
            '.using(unique=None), or .using(unique_scope="namespace")'
        )


class ClaimedBatch(EnqueueBatch):
    """Jobs with keys that hold in all namespaces of their alias, and perhaps others."""

    __slots__ = ()

    #: A claim is made when the job is put, at once.
    needs_server = True

    @property
    def outbox(self) -> bool:
        """False: see `batch_of`."""
        return False

    def part(self, requests: Sequence[EnqueueRequest]) -> ClaimedBatch:
        return ClaimedBatch(requests)

    def send(self) -> None:
        """Claim the keys and enqueue the jobs. Raises what the server refuses."""
        drive(self._after_claims(connections.clients.__getitem__, methodcaller("send")))

    async def asend(self) -> None:
        """Claim the keys and enqueue the jobs from asynchronous code."""
        await adrive(self._after_claims(connections.aclient, methodcaller("asend")))

    def _after_claims(
        self, client_of: ClientOf, send: Callable[[EnqueueBatch], Any]
    ) -> Steps[None]:
        kept = yield from claim(self.requests, client_of)
        if not kept:
            return
        jids = [request.handle.jid for request in kept]
        try:
            yield send(EnqueueBatch(kept))
        except REFUSALS:
            # (If the server is lost instead, the claims lapse unless the jobs are there.)
            yield from _release(kept, jids, client_of)
            raise
        yield from _release(kept, jids, client_of)


def claim(
    requests: Sequence[EnqueueRequest], client_of: ClientOf
) -> Steps[list[EnqueueRequest]]:
    """Claim the keys of jobs; return the jobs to be put, in their order.

    The handles of the others are those of the jobs that have their keys. Raises
    DuplicateJob.
    """
    wanted = {n: each for n, each in enumerate(requests) if is_claimed(each)}
    found = yield from _claim_all(wanted, client_of)
    for n, holder in found.items():
        if isinstance(holder, Holder) and _conflict(requests[n]) == "refuse":
            made = [
                requests[n]._replace(claim=each)
                for n, each in found.items()
                if not isinstance(each, Holder)
            ]
            yield from _release(made, [each.handle.jid for each in made], client_of)
            raise _duplicate(requests[n], holder)
    for n, holder in found.items():
        if isinstance(holder, Holder):
            handle = requests[n].handle
            handle.pending = handle.created = False
            handle.jid, handle.alias = holder
    return list(_to_put(requests, found))


def _to_put(
    requests: Sequence[EnqueueRequest], found: dict[int, str | Holder]
) -> Iterable[EnqueueRequest]:
    """Yield the jobs to be put, each behind those that are enqueued for its sake."""
    ahead: list[EnqueueRequest] = []
    for n, request in enumerate(requests):
        if request.optional:
            ahead.append(request)
            continue
        claim = found.get(n, "")
        if isinstance(claim, str):
            yield from ahead
            yield request._replace(claim=claim)
        else:
            for each in ahead:
                each.mark_not_enqueued()
        ahead = []


def _claim_all(
    wanted: dict[int, EnqueueRequest], client_of: ClientOf
) -> Steps[dict[int, str | Holder]]:
    """Return of each job what its put says of its claim, or who has its key."""
    found: dict[int, str | Holder] = {}
    instead: dict[int, str] = {}
    left = wanted
    for _ in range(ROUNDS):
        replies = yield from _claim_once(left, instead, client_of)
        for n, (home, reply) in replies.items():
            found[n] = (
                Holder(reply.jid, reply.home)
                if reply.jid
                else reply.of_put(home, wanted[n].handle.alias)
            )
        held = {n: reply for n, (_, reply) in replies.items() if reply.jid}
        instead = yield from _ended(wanted, held, client_of)
        if not instead:
            break
        left = {n: wanted[n] for n in instead}
    return found


def _claim_once(
    wanted: dict[int, EnqueueRequest], instead: dict[int, str], client_of: ClientOf
) -> Steps[dict[int, tuple[str, ClaimReply]]]:
    """Claim the keys of these jobs; return where, and the reply."""
    by_home: dict[str, list[int]] = defaultdict(list)
    for n, request in wanted.items():
        by_home[claimed_in(request.handle.alias, request.key)].append(n)
    replies: dict[int, tuple[str, ClaimReply]] = {}
    for home, numbers in by_home.items():
        client = client_of(home)
        for some in _parts(numbers):
            claims = [_claim_of(wanted[n], instead.get(n, "")) for n in some]
            made = yield client.claim(claims, lease(client))
            replies.update(
                (n, (home, reply)) for n, reply in zip(some, made, strict=True)
            )
    return replies


def _ended(
    wanted: dict[int, EnqueueRequest], held: dict[int, ClaimReply], client_of: ClientOf
) -> Steps[dict[int, str]]:
    """Return the claims of jobs that do not count any longer, each by its `since`.

    Raises ConnectionLost if the namespace of a job cannot be asked whose claim has lapsed.
    """
    by_home: dict[str, list[int]] = defaultdict(list)
    ended = {}
    for n, reply in held.items():
        if reply.home in conf.namespaces_of(routing.alias_of(wanted[n].handle.alias)):
            by_home[reply.home].append(n)
        elif reply.lapsed:
            ended[n] = reply.since  # The setting has no such namespace any more.
    for home, numbers in by_home.items():
        for some in _parts(numbers):
            keys = [(wanted[n].key, held[n]) for n in some]
            answers = yield client_of(home).check_claims(keys)
            ended.update(
                (n, held[n].since)
                for n, answer in zip(some, answers, strict=True)
                if not answer.held
            )
    return ended


def _release(
    requests: Sequence[EnqueueRequest], jids: Sequence[str], client_of: ClientOf
) -> Steps[None]:
    """Release the claims of jobs that are not there under these jids.

    What cannot be released lapses.
    """
    by_home: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for request, jid in zip(requests, jids, strict=True):
        handle = request.handle
        if request.claim and not (handle.created and handle.jid == jid):
            home = claimed_in(handle.alias, request.key)
            by_home[home].append((request.key, jid, handle.alias))
    for home, claims in by_home.items():
        for some in _parts(claims):
            try:
                yield client_of(home).release_claims(some)
            except QlessError:
                continue


def lease(client: Any) -> float:
    """Return the seconds within which a job is put whose key was claimed."""
    return float(30 + 3 * client.patience)


def _claim_of(request: EnqueueRequest, instead: str) -> Claim:
    until = request.plan.keyed.unique_until
    period = None if isinstance(until, str) else max(until - request.late, 0.001)
    handle = request.handle
    return Claim(request.key, handle.jid, handle.alias, period, instead)


def _conflict(request: EnqueueRequest) -> str:
    return request.conflict or request.plan.keyed.conflict


def _duplicate(request: EnqueueRequest, holder: Holder) -> DuplicateJob:
    error = DuplicateJob(
        f"{json.dumps(holder.jid)} The unique key {request.key} of job "
        f"{request.handle.jid} belongs to job {holder.jid}, which is "
        f"{routing.place(holder.home)}"
    )
    error.namespace = holder.home
    return error


def _parts(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[at : at + MOST] for at in range(0, len(items), MOST))
