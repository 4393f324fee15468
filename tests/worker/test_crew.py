"""What threads and coroutines have in common: a crew follows its board."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Client, Reserved, Settled, Settlement
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools import accounts, crew_post
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.batch import hand_back
from django_qless.worker.pools.board import Board
from django_qless.worker.pools.crew_appetite import MOST_AHEAD, Appetite
from django_qless.worker.pools.crew_post import Post
from django_qless.worker.pools.crew_stock import Stock
from django_qless.worker.worker import Worker
from tests.servers import poll
from tests.worker.crews import LoneCrew
from tests.worker.plain import PlainEnvironment
from tests.worker.processes import no_new_connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers import Server

    Start = Callable[..., LoneCrew]

# pytest-xdist has threads, which the children here do not touch.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

WAITS = {"threads": "wait_for", "coroutines": "await_"}


@pytest.fixture(params=WAITS)
def start(
    request: pytest.FixtureRequest, server: Server, tmp_path: Path
) -> Iterator[Start]:
    """Starts a crew of each kind."""
    crews: list[LoneCrew] = []

    def start(**options: object) -> LoneCrew:
        crews.append(LoneCrew(server, tmp_path, request.param, **options))
        return crews[-1]

    yield start
    for crew in crews:
        crew.close()


@pytest.fixture
def waits(start: Start, request: pytest.FixtureRequest) -> str:
    """The job that waits in the way that suits the crew."""
    return WAITS[request.node.callspec.params["start"]]


def is_blocked(crew: LoneCrew) -> None:
    """Return when the crew waits for jobs, as the server sees it."""
    clients = crew.client.redis
    poll(lambda: clients.info("clients")["blocked_clients"], what="it waits")


class TestRoom:
    def test_no_more_jobs_run_and_are_held_than_there_is_room_for(
        self, start: Start, waits: str
    ) -> None:
        crew = start(concurrency=3)
        jids = [crew.put(waits, crew.latch) for _ in range(8)]
        crew.running(3)
        # What was too much has not even been taken.
        assert crew.client.queue_counts("q").waiting == 5
        assert len(crew.board.holdings().all) == 3
        crew.open()
        for jid in jids:
            crew.when(jid, "complete")

    def test_what_is_held_beyond_that_is_not_started(
        self, start: Start, waits: str
    ) -> None:
        """After many short jobs it is given more than it can run."""
        crew = start(concurrency=3)
        crew.order(boards.QUIET)
        for n in range(300):
            crew.put("give", n, priority=1)
        jids = [crew.put(waits, crew.latch, retries=0) for _ in range(30)]
        crew.order(boards.QUIET, 0)
        crew.running(3)
        # The others go back.
        poll(lambda: len(crew.board.holdings().all) == 3, what="no more are held")
        assert len(crew.running(3)) == 3
        crew.open()
        for jid in jids:
            assert crew.when(jid, "complete").remaining == 0

    def test_it_may_grow_and_shrink(self, start: Start, waits: str) -> None:
        crew = start(concurrency=4)
        crew.order(boards.ROOM, 1)
        for _ in range(6):
            crew.put(waits, crew.latch)
        crew.running(1)
        crew.order(boards.ROOM, 4)
        running = crew.running(4)
        crew.order(boards.ROOM, 1)
        crew.drop({held.token for held in running[:2]})
        poll(lambda: len(crew.board.holdings().all) == 2, what="two are settled")
        assert crew.running(2) == running[2:]

    def test_a_crew_without_room_waits_for_some(self, start: Start) -> None:
        crew = start(concurrency=1)
        crew.order(boards.ROOM, 0)
        jid = crew.put("give", 1)
        # It follows orders: so it has looked, and has not taken the job.
        poll(lambda: not crew.board.has_orders, what="it has heard of its room")
        assert crew.client.queue_counts("q").waiting == 1
        crew.order(boards.ROOM, 1)
        crew.when(jid, "complete")

    def test_many_at_once(self, start: Start, waits: str) -> None:
        crew = start(concurrency=300)
        jids = [crew.put(waits, crew.latch) for _ in range(310)]
        crew.running(300)
        crew.open()
        for jid in jids:
            crew.when(jid, "complete")
        crew.holds_nothing()
        assert crew.word(boards.RUNS) == 310


class TestOrders:
    def test_stop_lets_end_what_runs(self, start: Start, waits: str) -> None:
        crew = start(concurrency=2)
        jids = [crew.put(waits, crew.latch) for _ in range(2)]
        crew.running(2)
        crew.order(boards.STOP)
        later = crew.put("give", 1)
        poll(lambda: not crew.board.has_orders, what="it has heard")
        crew.open()
        assert crew.wait() == 0
        assert {job.state for job in crew.client.multiget(jids)} == {"complete"}
        assert crew.when(later, "waiting")

    def test_stop_ends_a_wait_for_jobs(self, start: Start) -> None:
        crew = start(concurrency=2)
        is_blocked(crew)
        crew.order(boards.STOP)
        assert crew.wait() == 0
        assert crew.word(boards.CALLS) % 2 == 0

    def test_a_nudge_makes_it_ask_again(
        self, start: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The parent looks for jobs that were handed out to nobody."""
        monkeypatch.setattr(accounts, "WAIT", 3600)
        crew = start(concurrency=2)
        is_blocked(crew)
        calls = crew.word(boards.CALLS)
        crew.board.words[boards.ATTENTION] += 1
        crew.process.nudge()
        poll(lambda: crew.word(boards.CALLS) > calls + 1, what="it has asked again")

    def test_a_job_that_comes_in_the_last_moment_goes_back(self, start: Start) -> None:
        """The order to stop and the job are there when the crew wakes up."""
        for _ in range(3):
            crew = start(concurrency=2)
            is_blocked(crew)
            os.kill(crew.process.pid, signal.SIGSTOP)
            jid = crew.put("wait_for", crew.latch, retries=0)
            assert crew.when(jid, "running")
            crew.order(boards.STOP)
            os.kill(crew.process.pid, signal.SIGCONT)
            assert crew.wait() == 0
            assert crew.when(jid, "waiting").remaining == 0
            crew.client.cancel(jid)

    def test_a_term_of_somebody_else_makes_it_leave(
        self, start: Start, waits: str
    ) -> None:
        crew = start(concurrency=2)
        jid = crew.put(waits, crew.latch)
        crew.running(1)
        crew.terminate()
        poll(lambda: crew.word(boards.LEAVING), what="it leaves")
        later = crew.put("give", 1)
        crew.open()
        assert crew.wait() == 0
        assert crew.when(jid, "complete")
        assert crew.when(later, "waiting")

    def test_quiet_gives_nothing_up_but_takes_nothing(
        self, start: Start, waits: str
    ) -> None:
        crew = start(concurrency=2)
        jid = crew.put(waits, crew.latch)
        crew.running(1)
        crew.order(boards.QUIET)
        poll(lambda: not crew.board.has_orders, what="it has heard")
        later = crew.put("give", 1)
        crew.open()
        crew.when(jid, "complete")
        assert crew.when(later, "waiting")
        crew.order(boards.QUIET, 0)
        crew.when(later, "complete")

    def test_the_end_of_the_time_to_stop_is_told_to_all(
        self, start: Start, waits: str
    ) -> None:
        crew = start(concurrency=3)
        jids = [crew.put(waits, crew.latch, retries=0) for _ in range(3)]
        crew.running(3)
        crew.order(boards.STOP)
        crew.process.interrupt()
        assert crew.wait() == 0
        for jid in jids:
            job = crew.when(jid, "waiting")
            assert job.remaining == 0

    def test_a_lost_job_is_told_once_and_the_others_go_on(self, start: Start) -> None:
        crew = start(concurrency=3)
        jids = [crew.put("run_on", crew.latch) for _ in range(3)]
        held = {held.jid: held for held in crew.running(3)}
        lost = held[jids[0]]
        for _ in range(3):
            crew.drop({lost.token})
            poll(lambda: not crew.board.has_orders, what="it has heard")
        crew.open()
        results = [
            crew.when(jid, "complete") and crew.client.result(jid) for jid in jids
        ]
        assert results == ["JobLost", "", ""]


class TestTrouble:
    def test_outcomes_are_kept_until_the_server_takes_them(
        self, start: Start, waits: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Calls are given up soon.
        monkeypatch.setattr(crew_post, "PATIENCE", 0.01)
        crew = start(concurrency=4)
        jids = [crew.put(waits, crew.latch) for _ in range(3)]
        crew.running(3)
        with no_new_connections(crew.client):
            crew.open()
            poll(
                lambda: len(crew.board.holdings().finished) == 3,
                what="they have ended",
            )
            poll(lambda: "trouble" in crew.output, what="it has given up a call")
        for jid in jids:
            assert crew.when(jid, "complete").history[-1]["what"] == "done"
        crew.holds_nothing()
        crew.when(crew.put("give", 1), "complete")

    def test_a_finished_job_does_not_wait_for_the_others(
        self, start: Start, waits: str
    ) -> None:
        """While one runs, and the crew waits for more."""
        crew = start(concurrency=3)
        crew.put(waits, crew.latch)
        crew.running(1)
        for _ in range(3):
            crew.when(crew.put("give", 1), "complete")
        crew.running(1)

    def test_a_settlement_that_cannot_be_sent_spoils_no_other(
        self, start: Start
    ) -> None:
        crew = start(concurrency=8)
        jids = [crew.put("give", n) for n in range(20)]
        bad = crew.put("give_up_at_length")
        jids += [crew.put("give", n) for n in range(20)]
        for jid in jids:
            crew.when(jid, "complete")
        failure = crew.when(bad, "failed").failure
        assert failure is not None
        assert failure.group == "settlement-refused"
        crew.holds_nothing()

    def test_a_hard_limit_is_shown_before_the_job_begins(self, start: Start) -> None:
        crew = start(concurrency=2)
        jid = crew.put("await_shortly", crew.latch)
        (held,) = crew.running(1)
        assert (held.hard, held.delay) == (60.0, 7.0)
        crew.open()
        crew.when(jid, "complete")


def reserved(name: str, jid: str | None = None) -> Reserved:
    return Reserved(
        *(jid or name, "q", "klass", "{}", f"t-{name}", 3, 3, 0, "[]", "", 0.0)
    )


A, B, C = map(reserved, "abc")


@pytest.fixture
def stock() -> Iterator[Stock]:
    board = Board()
    yield Stock(board)
    board.close()


def done(job: Reserved) -> Settlement:
    return Settlement(job.jid, job.token, "complete")


def test_what_is_handed_out_when_a_wait_is_broken_off(server: Server) -> None:
    """Nobody else would know of it."""
    options = WorkerOptions(queues=("q",), name="w")
    worker = Worker(PlainEnvironment(server.url), options)
    board = Board()
    client = Client(server.client())

    async def break_off() -> Settled:
        post = Post(worker, Stock(board), lambda: None)
        known = await post.reserve(1)
        assert known is not None
        task = asyncio.create_task(post.wait(known, 1))
        while not client.redis.info("clients")["blocked_clients"]:
            await asyncio.sleep(0.005)
        # The loop does not turn here: the job is there, and is not seen before the order.
        client.put("", "q", "jid", "give", "{}")
        task.cancel()
        settled = await task
        await post.close()
        return settled

    settled = asyncio.run(break_off())
    assert [job.jid for job in settled.jobs] == ["jid"]
    assert [held.jid for held in board.holdings().waiting] == ["jid"]
    assert board.words[boards.CALLS] % 2 == 0
    board.close()
    client.close()


class TestStock:
    def test_what_waits_is_handed_back_in_its_order(self, stock: Stock) -> None:
        stock.load([A, B, C])
        item = stock.waiting.popleft()
        began = stock.begin(item)
        assert stock.running == 1
        assert stock.running_jobs() == [A]
        assert stock.give_back() == [B, C]
        stock.end(item, done(A), began)
        assert not stock.held
        sent = [outcome.settlement for outcome in stock.take_outcomes(9)]
        assert sent == [hand_back(B), hand_back(C), done(A)]

    def test_only_what_has_waited_for_long(self, stock: Stock) -> None:
        stock.load([A, B])
        first = stock.waiting[0].since
        stock.load([C])
        stock.waiting[-1] = stock.waiting[-1]._replace(since=first + 1)
        assert stock.give_back(before=first + 0.5) == [A, B]
        assert [item.job for item in stock.waiting] == [C]

    def test_lost_jobs_are_dropped_if_they_wait(self, stock: Stock) -> None:
        stock.load([A, B, C])
        stock.begin(stock.waiting.popleft())
        assert stock.drop({"t-a", "t-b", "t-z"}) == [A]
        assert [item.job for item in stock.waiting] == [C]
        assert [held.jid for held in stock.board.holdings().all] == ["a", "c"]

    def test_two_ends_of_one_job_are_not_sent_together(self, stock: Stock) -> None:
        """The server's refusal of one of them would not say of which."""
        again = reserved("d", jid="a")
        stock.load([A, B, again, C])
        for _ in range(4):
            item = stock.waiting.popleft()
            stock.end(item, done(item.job), stock.begin(item))
        calls = []
        while taken := stock.take_outcomes(9):
            calls.append([outcome.job.token for outcome in taken])
        assert calls == [["t-a", "t-b"], ["t-d", "t-c"]]

    def test_what_could_not_be_sent_comes_first_again(self, stock: Stock) -> None:
        stock.load([A, B, C])
        stock.give_back()
        taken = stock.take_outcomes(2)
        stock.put_back(taken)
        assert stock.take_outcomes(2) == taken


class TestAppetite:
    def test_it_grows_while_jobs_are_short(self) -> None:
        appetite = Appetite()
        seen = []
        for n in range(1, 12):
            appetite.learn(n * 1000, n * 0.01, n * 0.01)
            seen.append(appetite.ahead)
        assert seen == sorted(seen)
        assert seen[0] < seen[-1] <= MOST_AHEAD
        assert appetite.low < appetite.ahead

    def test_it_holds_no_more_than_will_soon_be_done(self) -> None:
        appetite = Appetite()
        for n in range(1, 20):
            appetite.learn(n * 10, n * 0.01, n * 0.01)
        assert 0 < appetite.ahead <= 10

    @pytest.mark.parametrize("seconds", [0.006, 1, 100])
    def test_long_jobs_are_not_held(self, seconds: float) -> None:
        appetite = Appetite()
        appetite.learn(1000, 0.01, 0.01)
        assert appetite.ahead
        appetite.learn(2000, 1000 * seconds, 0.02)
        assert appetite.ahead == 0

    def test_the_time_of_rest_does_not_count(self) -> None:
        appetite = Appetite()
        appetite.learn(1000, 0.01, 0.01)
        appetite.rest(99.99)
        appetite.learn(2000, 0.02, 100.0)
        assert appetite.ahead > 20
