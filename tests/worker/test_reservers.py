"""Which queues are asked, in what order: each reserver against a real server."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Client, Settlement
from django_qless.core.put import new_jid
from django_qless.worker import reservers
from django_qless.worker.known_queues import KnownQueues
from django_qless.worker.reservers import RESERVERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_qless.worker.reservers import Reserver
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger

    StartWorker = Callable[..., WorkerProcess]

EVERY = sorted(RESERVERS)


def fill(client: Client, **counts: int) -> None:
    """Put this many jobs into each of these queues."""
    for queue, count in counts.items():
        for _ in range(count):
            client.put("", queue, new_jid(), "klass", "{}")


class Taker:
    """Looks up, asks and settles as a worker does."""

    def __init__(self, client: Client, reserver: Reserver) -> None:
        self.client = client
        self.reserver = reserver
        self.known = KnownQueues()
        self.done: list[Settlement] = []

    def order(self) -> tuple[str, ...]:
        """Look up the queues as often as the reserver wants; return its order."""
        max_age = self.reserver.max_age
        if max_age is not None and self.known.is_stale(max_age):
            began = time.monotonic()
            self.known.update(self.client.survey(self.reserver.surveyed), began)
        return self.reserver.order(self.known)

    def take(self, count: int = 1) -> list[str]:
        """Settle what was taken, take the next; return their queues."""
        asked = self.order()
        settled = self.client.settle(
            "w",
            self.done,
            count=count,
            queues=asked,
            exclude=self.reserver.exclude,
        )
        self.reserver.taken(asked, settled.jobs)
        jobs = settled.jobs
        self.done = [Settlement(job.jid, job.token, "complete", ()) for job in jobs]
        return [job.queue for job in jobs]

    def take_all(self, count: int = 1) -> list[str]:
        """Take until there is nothing left."""
        taken: list[str] = []
        while more := self.take(count):
            taken += more
        return taken


def taker(
    client: Client, name: str, queues: Sequence[str], exclude: Sequence[str] = ()
) -> Taker:
    return Taker(client, RESERVERS[name](queues, exclude))


BATCHES = (1, 2, 3, 4, 7, 100)


class TestOrdered:
    @pytest.mark.parametrize("batch", BATCHES)
    def test_the_second_queue_waits_for_the_first(
        self, client: Client, batch: int
    ) -> None:
        fill(client, A=5, B=2, C=3)
        taken = taker(client, "ordered", ["C", "B", "A"]).take_all(batch)
        assert taken == "C C C B B A A A A A".split()


class TestRoundRobin:
    @pytest.mark.parametrize(
        ("batch", "order"),
        [(1, "CBACBACAAA"), (2, "CCBBAACAAA"), (3, "CCCBBAAAAA"), (100, "CCCBBAAAAA")],
    )
    def test_the_queues_take_turns(
        self, client: Client, batch: int, order: str
    ) -> None:
        fill(client, A=5, B=2, C=3)
        taken = taker(client, "round-robin", ["C", "B", "A"]).take_all(batch)
        assert taken == list(order)

    @pytest.mark.parametrize(("batch", "order"), [(1, "ABCDACDADA"), (2, "AABCDDAACD")])
    def test_a_queue_without_jobs_passes_its_turn_on(
        self, client: Client, batch: int, order: str
    ) -> None:
        fill(client, A=4, B=1, C=2, D=3)
        taken = taker(client, "round-robin", ["A", "B", "C", "D"]).take_all(batch)
        assert taken == list(order)

    def test_it_goes_on_with_returned_jobs(self, client: Client) -> None:
        """A batch that is slow is handed back but for the jobs that have run."""
        fill(client, A=5, B=2, C=3)
        asking = taker(client, "round-robin", ["C", "B", "A"])
        assert asking.take(4) == "C C C B".split()
        kept, back = asking.done[:2], asking.done[2:]
        jobs = asking.client.multiget([settlement.jid for settlement in back])
        asking.reserver.returned(jobs)  # type: ignore[arg-type]
        release = [Settlement(s.jid, s.token, "release", (0,)) for s in back]
        client.settle("w", [*kept, *release], count=0, queues=())
        asking.done = []
        assert asking.take_all() == "C B A B A A A A".split()


class TestShuffled:
    def test_each_process_has_its_own_order(self, client: Client) -> None:
        names = [f"q{n}" for n in range(30)]
        orders = {RESERVERS["shuffled"](names).order(KnownQueues()) for _ in range(3)}
        assert len(orders) == 3
        assert all(sorted(order) == sorted(names) for order in orders)

    def test_it_keeps_its_order_and_takes_turns(self, client: Client) -> None:
        names = [f"q{n}" for n in range(5)]
        fill(client, **dict.fromkeys(names, 3))
        taken = taker(client, "shuffled", ["*"]).take_all()
        assert sorted(taken[:5]) == names
        assert taken == 3 * taken[:5]


class TestLottery:
    @pytest.mark.parametrize(
        ("name", "shares"),
        [
            ("random", {"one": 1 / 4, "two": 1 / 4, "three": 1 / 4, "none": 1 / 4}),
            ("lottery", {"one": 1 / 5.5, "two": 1.5 / 5.5, "three": 3 / 5.5}),
            ("reduced-lottery", {"one": 1 / 5.5, "two": 1.5 / 5.5, "three": 3 / 5.5}),
            # Behind the greatest weight, which is always first.
            ("highest-priority-lottery", {"one": 1 / 2.5, "two": 1.5 / 2.5}),
        ],
    )
    def test_shares_are_within_a_hundredth(
        self, client: Client, name: str, shares: dict[str, float]
    ) -> None:
        for queue, weight in (("one", 1), ("two", "1.5"), ("three", 3), ("none", 0)):
            client.config_set(f"{queue}-weight", weight)
        names = ["one", "two", "three", "none"]
        lottery, known = RESERVERS[name](names), KnownQueues(client.survey(names))
        random.seed(20)
        draws, place = 100_000, int(name == "highest-priority-lottery")
        orders = Counter(lottery.order(known) for _ in range(draws))
        assert all(sorted(order) == sorted(names) for order in orders)
        drawn: Counter[str] = Counter()
        for order, count in orders.items():
            drawn[order[place]] += count
        assert drawn.keys() == shares.keys()
        for queue, share in shares.items():
            assert abs(drawn[queue] / draws - share) < 0.01, drawn

    def test_jobs_run_in_proportion_to_the_weights(self, client: Client) -> None:
        client.config_set("a-weight", 4)
        fill(client, a=500, b=500)
        asking = taker(client, "reduced-lottery", ["*"])
        random.seed(4)
        taken = Counter(queue for _ in range(300) for queue in asking.take())
        assert abs(taken["a"] / 300 - 0.8) < 0.1, taken

    def test_an_empty_queue_is_left_out_until_all_are_empty(
        self, client: Client
    ) -> None:
        client.config_set("empty-weight", 10**9)
        fill(client, full=3)
        lottery = taker(client, "reduced-lottery", ["empty", "full"])
        assert lottery.take() == ["full"]
        assert lottery.order() == ("full", "empty")
        lottery.take_all()
        assert lottery.order() == ("empty", "full")

    def test_it_is_not_left_out_for_long(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client.config_set("empty-weight", 10**9)
        fill(client, full=3)
        monkeypatch.setattr(reservers, "LEFT_OUT_SECONDS", 0.0)
        lottery = taker(client, "reduced-lottery", ["empty", "full"])
        assert lottery.take() == ["full"]
        assert lottery.order() == ("empty", "full")

    def test_the_plain_one_draws_empty_queues_again(self, client: Client) -> None:
        client.config_set("empty-weight", 10**9)
        fill(client, full=3)
        lottery = taker(client, "lottery", ["empty", "full"])
        assert lottery.take() == ["full"]
        assert lottery.order() == ("empty", "full")

    @pytest.mark.parametrize("batch", BATCHES)
    def test_all_jobs_are_taken(self, client: Client, batch: int) -> None:
        fill(client, a=4, b=7, c=1)
        client.config_set("b-weight", 0)
        taken = taker(client, "reduced-lottery", ["*"]).take_all(batch)
        assert Counter(taken) == {"a": 4, "b": 7, "c": 1}


class TestHighestPriorityLottery:
    @pytest.mark.parametrize("batch", [1, 3])
    def test_the_greatest_weight_comes_first(self, client: Client, batch: int) -> None:
        fill(client, a=20, urgent=4, b=20)
        client.config_set("urgent-weight", 9)
        taken = taker(client, "highest-priority-lottery", ["*"]).take_all(batch)
        assert taken[:4] == ["urgent"] * 4
        assert Counter(taken[4:]) == {"a": 20, "b": 20}
        assert taken[4:] != sorted(taken[4:])


class TestHighestPriorityFirst:
    @pytest.mark.parametrize("batch", BATCHES)
    def test_the_greatest_weight_comes_first(self, client: Client, batch: int) -> None:
        fill(client, a=2, b=2, c=2, d=1)
        client.config_set("c-weight", 5)
        client.config_set("b-weight", 2.5)
        client.config_set("d-weight", 0)
        taken = taker(client, "highest-priority-first", ["*"]).take_all(batch)
        assert taken == "c c b b a a d".split()

    def test_operators_may_change_it_at_any_time(self, client: Client) -> None:
        fill(client, a=2, b=2)
        asking = taker(client, "highest-priority-first", ["a", "b"])
        assert asking.take() == ["a"]
        client.config_set("b-weight", 2)
        asking.known = KnownQueues()
        assert asking.take() == ["b"]


class TestLag:
    def test_the_longest_wait_comes_first(self, client: Client) -> None:
        for queue in "bcaab":
            fill(client, **{queue: 1})
        lag = taker(client, "lag", ["a", "b", "c"])
        taken = []
        for _ in range(5):
            taken += lag.take()
            # As if the job had taken some time, in which the figures have grown old.
            lag.known = KnownQueues()
        assert taken == list("bcaab")

    def test_delayed_jobs_do_not_count(self, client: Client) -> None:
        client.put("", "later", new_jid(), "klass", "{}", 3600)
        fill(client, now=1)
        lag = taker(client, "lag", ["later", "now"])
        assert lag.order() == ("now", "later")

    def test_without_jobs_the_order_is_as_given(self, client: Client) -> None:
        lag = taker(client, "lag", ["c", "a", "b"])
        assert lag.order() == ("c", "a", "b")


class TestAllReservers:
    @pytest.mark.parametrize("name", EVERY)
    @pytest.mark.parametrize("batch", [1, 100])
    def test_globs_exclusions_and_duplicates(
        self, client: Client, name: str, batch: int
    ) -> None:
        fill(client, **{"mail-a": 2, "mail-b": 2, "mail-slow": 2, "mail": 2, "x": 2})
        queues = ["mail-b", "mail-?", "mail-*", "x", "mail-b"]
        asking = taker(client, name, queues, ["*-slow", "x"])
        assert Counter(asking.take_all(batch)) == {"mail-a": 2, "mail-b": 2}

    @pytest.mark.parametrize("name", EVERY)
    def test_queues_that_appear_later(self, client: Client, name: str) -> None:
        asking = taker(client, name, ["new-*", "named"])
        assert asking.take_all() == []
        # At once: before anything is looked up anew.
        fill(client, **{"new-1": 1, "named": 1, "other": 1})
        assert sorted(asking.take_all()) == ["named", "new-1"]
        fill(client, **{"new-2": 1, "new-1": 1})
        assert sorted(asking.take_all(5)) == ["new-1", "new-2"]

    @pytest.mark.parametrize("name", EVERY)
    @pytest.mark.parametrize("queues", [["*"], ["a", "b"]])
    def test_paused_queues_are_passed_over(
        self, client: Client, name: str, queues: list[str]
    ) -> None:
        fill(client, a=2, b=1)
        asking = taker(client, name, queues)
        client.pause("a")
        assert asking.take_all() == ["b"]
        client.unpause("a")
        assert asking.take_all() == ["a", "a"]

    @pytest.mark.parametrize("name", EVERY)
    def test_many_queues_are_not_all_named(self, client: Client, name: str) -> None:
        fill(client, **{f"q{n}": 1 for n in range(700)})
        asking = taker(client, name, ["*"])
        assert len(asking.take_all(250)) == 700


class TestInAWorker:
    @pytest.mark.parametrize("pool", ["coroutines", "fork", "prefork", "threads"])
    def test_jobs_run_in_this_order(
        self,
        start_worker: StartWorker,
        put: Callable[..., str],
        ledger: Ledger,
        pool: str,
    ) -> None:
        for queue, count in (("A", 5), ("B", 2), ("C", 3)):
            for _ in range(count):
                put("say", ledger.path, queue, queue=queue)
        options = {"queues": ["C", "B", "A"], "reserver": "ordered"}
        assert start_worker(**options, pool=pool, burst=True).wait() == 0
        assert "".join(ledger.all()) == "CCCBBAAAAA"

    @pytest.mark.parametrize("name", EVERY)
    def test_all_jobs_of_all_queues_run(
        self,
        start_worker: StartWorker,
        put: Callable[..., str],
        ledger: Ledger,
        client: Client,
        name: str,
    ) -> None:
        for n in range(120):
            put("say", ledger.path, n, queue=f"q{n % 6}")
        options = {"queues": ["q5", "q*"], "exclude": ["q3"], "reserver": name}
        worker = start_worker(**options, concurrency=2)
        ledger.wait_until(100)
        put("say", ledger.path, "late", queue="q-new")
        ledger.wait_for("late")
        assert len(set(ledger.all())) == len(ledger.all()) == 101
        assert client.length("q3") == 20
        worker.signal("TERM")
        assert worker.wait() == 0
