"""A child prefetches the next batch while one runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import BadArgument, Client, Reserved, Settlement
from django_qless.core.commands.entities import Payload
from django_qless.core.exceptions import ConnectionLost
from django_qless.worker.heartbeat import Heartbeat
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools import early_settling, shared_state
from django_qless.worker.pools.blocking_channel import BlockingChannel
from django_qless.worker.pools.buffer import JobBuffer, Outcome
from django_qless.worker.pools.locks import LockRenewal
from django_qless.worker.pools.prefork import PREFETCH_FROM, PreforkChild
from django_qless.worker.pools.shared_state import SharedState
from django_qless.worker.status_report import title
from django_qless.worker.worker import Worker
from tests.core.cutter import Cutter
from tests.real_servers import poll
from tests.worker.declare import job
from tests.worker.inside.plain import PlainEnvironment
from tests.worker.processes import children_of

if TYPE_CHECKING:
    from tests.real_servers import Server
    from tests.worker.conftest import WorkerProcess

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]


class Side:
    """A child's side of the conversation, without the child."""

    def __init__(self, url: str) -> None:
        environment: Any = PlainEnvironment(url)
        self.worker = Worker(environment, WorkerOptions(queues=("q",)))
        self.shared = SharedState()
        self.buffer = JobBuffer(self.shared)
        self.channel = BlockingChannel(self.worker, self.buffer, lambda: None)

    def is_calling(self) -> bool:
        """Whether the parent would look for jobs of which this side does not know."""
        return self.shared.ints[shared_state.CALLS] % 2 == 1

    def reserve(self, count: int) -> list[Reserved]:
        """Return the next jobs; they are waiting."""
        settled = self.channel.reserve(count)
        assert settled is not None
        self.buffer.waiting.extend(self.channel.taken)
        return settled.jobs

    def finish(self, count: int, verb: str = "complete", *args: str) -> None:
        """End so many of the jobs that wait."""
        for _ in range(count):
            item = self.buffer.waiting.popleft()
            self.shared.begin(item.slot, 0.0)
            self.shared.finish(item.slot)
            done = Settlement(item.job.jid, item.job.token, verb, args)
            self.buffer.outcomes.append(Outcome(item.slot, done, item.job))


@pytest.fixture
def side(server: Server) -> Side:
    return Side(server.url)


@pytest.fixture
def jids(put: Put) -> list[str]:
    return [put("give", n, retries=0) for n in range(9)]


def states(client: Client, jids: list[str]) -> list[str]:
    return [job.state for job in client.multiget(jids)]


def test_what_is_finished_is_settled_meanwhile(
    side: Side, client: Client, jids: list[str]
) -> None:
    first = side.reserve(3)
    side.finish(2)
    side.channel.prefetch(4)
    assert side.is_calling()
    poll(
        lambda: client.queue("q").counts().waiting == 2, what="the next are handed out"
    )
    assert states(client, jids[:3]) == ["complete", "complete", "running"]
    # Until the answer is here, they are shown as held.
    assert len(side.shared.held_jobs().finished) == 2
    side.finish(1)
    second = side.reserve(9)
    assert not side.is_calling()
    assert [job.jid for job in first + second] == jids[:7]
    assert len(side.shared.held_jobs().finished) == 1
    assert len(side.shared.held_jobs().waiting) == 4
    # The one finished meanwhile goes with the next call.
    side.finish(4)
    assert [job.jid for job in side.reserve(9)] == jids[7:]
    assert states(client, jids[:7]) == ["complete"] * 7


def test_they_are_in_our_hands_since_the_question(side: Side, jids: list[str]) -> None:
    side.reserve(1)
    before = side.channel.taken[0].since
    side.channel.prefetch(1)
    asked = side.channel._prefetch
    assert asked is not None
    side.reserve(1)
    assert before < side.channel.taken[0].since == asked.began


def test_what_is_not_run_soon_goes_back(
    side: Side, client: Client, jids: list[str]
) -> None:
    side.reserve(2)
    side.finish(1)
    side.channel.prefetch(5)
    # As the thread does that settles early.
    side.channel.return_prefetched()
    assert not side.is_calling()
    assert len(side.buffer.returned) == 5
    side.channel.return_prefetched()
    side.finish(1)
    assert [job.jid for job in side.reserve(9)] == jids[2:]
    assert [job.remaining for job in client.multiget(jids)] == [0] * 9


def test_a_queue_that_is_empty_is_asked_again(side: Side, put: Put) -> None:
    """What was finished meanwhile is still to be settled: no moment to rest."""
    put("give", 1)
    side.reserve(1)
    side.channel.prefetch(5)
    side.finish(1)
    assert side.channel.reserve(5) is None
    settled = side.channel.reserve(5)
    assert settled is not None
    assert (settled.jobs, bool(settled.wait_keys)) == ([], True)


def test_a_lost_lock_is_told(side: Side, client: Client, jids: list[str]) -> None:
    [job] = side.reserve(1)
    client.cancel(job.jid)
    side.finish(1)
    side.channel.prefetch(1)
    assert [job.jid for job in side.reserve(1)] == [jids[1]]
    assert [lost.jid for lost in side.channel.lost] == [job.jid]
    assert side.shared.held_jobs().finished == []


def test_a_job_on_its_way_back_that_is_gone_is_not_told(
    side: Side, client: Client, jids: list[str]
) -> None:
    [job] = side.reserve(1)
    client.cancel(job.jid)
    assert side.buffer.give_back_waiting() == 1
    side.channel.prefetch(1)
    assert [job.jid for job in side.reserve(1)] == [jids[1]]
    assert not side.channel.lost


def test_what_cannot_be_asked_is_asked_without_haste(
    side: Side, client: Client, jids: list[str]
) -> None:
    """An outcome that the client refuses becomes a failure, and the others are settled."""
    side.reserve(2)
    side.finish(1, "complete", "too", "many", "words", "here")
    side.finish(1)
    side.channel.prefetch(1)
    assert not side.is_calling()
    assert len(side.buffer.outcomes) == 2
    assert side.channel.reserve(1) is None
    side.channel.settle()
    assert states(client, jids[:2]) == ["failed", "complete"]


def test_a_server_that_is_away_keeps_no_outcome(
    server: Server, client: Client, jids: list[str]
) -> None:
    with Cutter(server.socket) as cutter:
        side = Side(f"unix://{cutter.path}")
        side.channel.client.patience = 0.05
        side.reserve(1)
        side.finish(1)
        cutter.cut("settle", times=1_000_000)
        side.channel.prefetch(0)
        with pytest.raises(ConnectionLost):
            side.channel.reserve(1)
        assert not side.is_calling()
        assert len(side.buffer.outcomes) == 1
        cutter.cut("no longer")
        side.channel.settle()
    assert not side.buffer.outcomes
    assert states(client, jids[:1]) == ["complete"]


def test_a_prefetch_that_cannot_be_sent_keeps_the_outcomes(
    side: Side, monkeypatch: pytest.MonkeyPatch, jids: list[str]
) -> None:
    """Whatever the error is: the parent would not look for what the child still has."""

    def fail(request: object) -> None:
        raise MemoryError

    side.reserve(1)
    side.finish(1)
    monkeypatch.setattr(side.channel.client, "start", fail)
    with pytest.raises(MemoryError):
        side.channel.prefetch(1)
    assert not side.is_calling()
    assert not side.channel.has_prefetch
    assert [outcome.job.jid for outcome in side.buffer.outcomes] == jids[:1]


def test_a_prefetch_whose_answer_does_not_come_is_given_up(
    server: Server, client: Client, jids: list[str]
) -> None:
    with Cutter(server.socket) as cutter:
        side = Side(f"unix://{cutter.path}")
        side.channel.client.patience = 0.05
        side.reserve(1)
        side.finish(1)
        cutter.cut("settle", times=1_000_000)
        side.channel.prefetch(0)
        side.channel.return_prefetched()
        assert not side.is_calling()
        side.channel.early_client.patience = 0.05
        assert not side.channel.settle_early()
        assert len(side.buffer.outcomes) == 1
        cutter.cut("no longer")
        assert side.channel.settle_early()
    assert states(client, jids[:1]) == ["complete"]


def test_of_outcomes_that_are_sent_one_by_one_those_after_an_outage_are_kept(
    side: Side, client: Client, jids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first spoils the call for all; the server goes away before the third."""
    side.reserve(3)
    side.finish(1, "complete", "too", "many", "words", "here")
    side.finish(2)
    sent, settle = [], side.channel.client.settle

    def settle_two(worker: str, settlements: Any, **options: Any) -> Any:
        sent.append(settlements)
        if len(sent) == 3:
            raise ConnectionLost("away")
        return settle(worker, settlements, **options)

    with monkeypatch.context() as outage:
        outage.setattr(side.channel.client, "settle", settle_two)
        with pytest.raises(ConnectionLost):
            side.channel.settle()
    assert states(client, jids[:3]) == ["running", "complete", "running"]
    side.channel.settle()
    assert states(client, jids[:3]) == ["failed", "complete", "complete"]
    assert side.shared.held_jobs().finished == []


def test_a_failure_that_is_refused_as_well_is_given_up(
    side: Side, client: Client, jids: list[str]
) -> None:
    """Once more would be for ever; the lock runs out, and the job is tried again."""
    side.reserve(1)
    side.finish(1, "fail", "settlement-refused", "too", "many")
    side.channel.settle()
    assert not side.buffer.outcomes
    assert side.shared.held_jobs().all == []
    assert states(client, jids[:1]) == ["running"]


class Member:
    """A child as its parent knows it."""

    is_working = True

    def __init__(self, shared: SharedState) -> None:
        self.shared, self.pid = shared, 1


def test_locks_on_what_the_child_has_not_seen_are_renewed(
    side: Side, client: Client, jids: list[str]
) -> None:
    """A job that lets nothing else run may be what keeps it from looking."""
    side.reserve(1)
    side.channel.prefetch(2)
    poll(lambda: client.queue("q").counts().waiting == 6, what="two are handed out")
    heartbeat = Heartbeat(client, side.worker.name, lambda: "{}")
    members: Any = [Member(side.shared)]
    lock_renewal = LockRenewal(heartbeat, members)

    def renewed() -> list[bool]:
        before = client.multiget(jids)
        heartbeat.due = 0.0
        time.sleep(0.002)
        lock_renewal.beat()
        after = client.multiget(jids)
        return [
            one.expires < two.expires for one, two in zip(before, after, strict=True)
        ]

    assert renewed() == [True] + 8 * [False]
    assert renewed() == 3 * [True] + 6 * [False]
    assert len(side.reserve(2)) == 2
    # What it has seen now is renewed as ever; what it had finished is not.
    side.finish(1)
    assert renewed() == [False, True, True] + 6 * [False]
    # Another call is not the one that was under way before.
    side.channel.prefetch(2)
    poll(lambda: client.queue("q").counts().waiting == 4, what="two are handed out")
    assert renewed() == [False, True, True] + 6 * [False]
    members[0].is_working = False
    assert renewed() == 9 * [False]


@pytest.fixture
def child(server: Server, monkeypatch: pytest.MonkeyPatch) -> PreforkChild:
    """A child of the pool prefork, in this process; it has all the time that it needs."""
    monkeypatch.setattr(early_settling, "LIMIT", 600.0)
    environment: Any = PlainEnvironment(server.url)
    options = WorkerOptions(queues=("q",), max_jobs=100)
    return PreforkChild(Worker(environment, options), SharedState(), os.pipe()[1])


@pytest.mark.parametrize(
    ("fits", "held", "asked"),
    [
        (PREFETCH_FROM, PREFETCH_FROM, True),
        (PREFETCH_FROM - 1, PREFETCH_FROM - 1, False),
        (2 * PREFETCH_FROM, PREFETCH_FROM - 1, False),
    ],
)
def test_of_many_quick_jobs_the_next_are_on_their_way(
    child: PreforkChild, client: Client, put: Put, fits: int, held: int, asked: bool
) -> None:
    """Not if the queue has few: others may be waiting for them."""
    for n in range(50):
        put("give", n)
    child.channel.reserve(held)
    child.prefetch.count = fits
    child.run_batch()
    assert (child.channel._prefetch is not None) is asked
    child.channel.return_prefetched()
    child.channel.settle()
    counts = client.queue("q").counts()
    assert (counts.running, counts.waiting) == (0, 50 - held)


def test_what_the_server_refuses_is_told_if_nothing_was_to_be_settled(
    child: PreforkChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child.channel, "next_order", lambda: ("",))
    with pytest.raises(BadArgument):
        child.channel.reserve(1)


@pytest.mark.parametrize(
    ("jobs", "before", "is_named"),
    [(1, None, True), (1, 0.5, True), (1, 0.001, False), (2, 0.5, False)],
)
def test_the_list_of_processes_names_a_single_job_that_may_be_slow(
    child: PreforkChild, put: Put, monkeypatch: pytest.MonkeyPatch,
    jobs: int, before: float | None, is_named: bool,
) -> None:  # fmt: skip
    """As slow as those before it, as far as is known."""
    shown: list[str] = []
    monkeypatch.setattr(title, "_set", shown.append)
    monkeypatch.setattr(title, "_shown", "")
    monkeypatch.setattr(title, "worker", "w1")
    jid, *_ = [put("give", 1) for _ in range(jobs)]
    child.channel.reserve(jobs)
    child.prefetch.each = before
    child.run_batch()
    assert shown == ["qless_worker w1 running" + (f" give {jid}" if is_named else "")]
    child.channel.settle()


@job(entity=True)
def do_nothing(batch: dict[str, list[int]]) -> None:
    pass


def test_a_batch_of_entities_has_as_many_as_one_of_other_jobs(
    child: PreforkChild, client: Client
) -> None:
    """The server counts those that run together as one."""
    pushed = [Payload(f"e{n}", f'{{"v":1,"entity":"e{n}"}}', "1") for n in range(200)]
    client.push("", "q", "do_nothing", pushed, batch=10)
    child.channel.reserve(1)
    child.run_batch()
    assert len(child.channel.taken) == child.largest_run == 10
    child.prefetch.count = 45
    child.round()
    assert len(child.channel.taken) == 50
    # The batch that was reserved meanwhile.
    child.channel.return_prefetched()
    assert len(child.channel.taken) == 50


def test_it_asks_for_no_more_than_it_may_run(child: PreforkChild, put: Put) -> None:
    for n in range(50):
        put("give", n)
    child.recycling.jobs = 40
    child.channel.reserve(30)
    child.prefetch.count = 30
    child.run_batch()
    assert child.channel.reserve(0) is not None
    assert len(child.channel.taken) == 10
    child.run_batch()
    assert child.channel._prefetch is None


def test_who_is_to_stop_asks_for_nothing(child: PreforkChild, put: Put) -> None:
    for n in range(50):
        put("give", n)
    child.channel.reserve(20)
    child.prefetch.count = 20
    child.shared.command(shared_state.STOP)
    child.run_batch()
    assert child.channel._prefetch is None
    assert len(child.buffer.returned) == 20


def test_a_worker_that_ends_returns_prefetched_jobs(
    start_worker: StartWorker, put: Put, client: Client
) -> None:
    jids = [put("give", n, retries=0) for n in range(9000)]
    worker = start_worker(queues=["q"])
    poll(lambda: client.queue("q").counts().waiting < 8500, what="it is at work")
    worker.signal("TERM")
    assert worker.wait() == 0
    counts = client.queue("q").counts()
    assert counts.running == 0
    assert 0 < counts.waiting < 9000
    left = {job.jid for job in client.multiget(jids) if job.state != "complete"}
    assert len(left) == counts.waiting


def test_of_a_killed_child_all_jobs_are_run(
    start_worker: StartWorker, put: Put, client: Client
) -> None:
    """Also those of a call whose answer it has never seen."""
    for n in range(4000):
        put("give", n, retries=0)
    worker = start_worker(queues=["q"])
    poll(lambda: client.queue("q").counts().waiting < 3000, what="it is at work")
    for child in children_of(worker.pid):
        os.kill(child, signal.SIGKILL)
    poll(lambda: client.queue("q").counts().waiting == 0, what="all are run")
    poll(lambda: client.queue("q").counts().running == 0, what="all are over")


def test_a_term_may_come_while_it_waits_and_not_while_a_job_runs(
    child: PreforkChild,
) -> None:
    def is_wakeable() -> int:
        return child.shared.ints[shared_state.WAKEABLE]

    def is_woken() -> None:
        child.on_term(signal.SIGTERM, None)
        raise AssertionError("it waits on")

    assert is_wakeable() == 0
    assert child.sleep(is_wakeable) == 1
    assert is_wakeable() == 0
    assert child.sleep(is_woken) is None
    assert is_wakeable() == 0
