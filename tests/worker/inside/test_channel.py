"""What a child asks its server, and what it makes of the answers."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Settlement
from django_qless.core.exceptions import (
    BadArgument,
    ConnectionLost,
    QlessError,
    ServerError,
)
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.blocking_channel import BlockingChannel
from django_qless.worker.pools.buffer import JobBuffer
from django_qless.worker.pools.channel import (
    MOST_IDLE_REQUESTS,
    check_wait,
    is_about_the_call,
)
from django_qless.worker.pools.shared_state import SharedState
from django_qless.worker.worker import Worker
from tests.worker.inside.plain import PlainEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_qless.core import Client
    from tests.real_servers import Server

    Put = Callable[..., str]


class Parent:
    """Counts how often it was woken."""

    woken = 0

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def parent() -> Parent:
    return Parent()


@pytest.fixture
def channel(server: Server, parent: Parent) -> Iterator[BlockingChannel]:
    options = WorkerOptions(queues=("q",), exclude=("x",))
    worker = Worker(PlainEnvironment(server.url), options)
    shared = SharedState(slots=1)
    shared.floats[shared_state.HEARTBEAT_INTERVAL] = 10.0
    yield BlockingChannel(worker, JobBuffer(shared), parent.wake)
    shared.close()


def test_it_is_told_of_a_job_that_no_heartbeat_will_keep(
    channel: BlockingChannel, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = put("give", 1), put("give", 2, jid="x" * 200)
    with caplog.at_level(logging.DEBUG, "django_qless.worker"):
        channel.reserve(2)
    assert [item.job.jid for item in channel.taken] == [first, second]
    assert [held.jid for held in channel.shared.held_jobs().all] == [first]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    text = record.getMessage()
    assert "no heartbeats" in text
    assert f"jid={'x' * 100} " in f"{text} "
    assert "queue=q" in text
    assert "klass=give" in text


@pytest.mark.parametrize(("lock", "woken"), [(31, 0), (30, 0), (29, 1)])
def test_a_short_lock_has_the_parent_beat_sooner(
    channel: BlockingChannel,
    parent: Parent,
    client: Client,
    put: Put,
    lock: int,
    woken: int,
) -> None:
    client.config_set("heartbeat", lock)
    channel.shared.floats[shared_state.HEARTBEAT_INTERVAL] = 10.0
    channel.reserve(1)
    assert channel.shared.ints[shared_state.READY] == 1
    assert channel.shared.floats[shared_state.LOCK_SECONDS] == 0.0
    put("give", 1)
    channel.reserve(1)
    assert channel.shared.floats[shared_state.LOCK_SECONDS] == lock
    assert parent.woken == woken


def test_equal_questions_are_built_once(channel: BlockingChannel) -> None:
    once = channel.request(("q",), (), 1)
    assert channel.request(("q",), (), 1) is once
    assert channel.request(("q",), (), 2) is not once
    assert channel.request(("r",), (), 1) is not once
    # Another queue is to be left out now.
    channel.shared.exclude(["full"])
    rebuilt = channel.request(("q",), (), 1)
    assert rebuilt is not once
    assert channel.request(("q",), (), 1) is rebuilt
    # What settles a job is never asked again.
    outcome: Any = SimpleNamespace(settlement=Settlement("jid", "t", "complete"))
    channel.request(("r",), [outcome], 1)
    assert (("r",), 1) not in channel.idle_requests


def test_only_what_a_split_call_has_left_unsettled_is_kept(
    channel: BlockingChannel,
) -> None:
    outcomes: Any = [SimpleNamespace(slot=channel.shared.nowhere) for _ in range(3)]
    error = ConnectionLost("away")
    assert channel.unsettled(outcomes, error) == outcomes
    error.done = 1
    assert channel.unsettled(outcomes, error) == outcomes[1:]


@pytest.mark.parametrize(("follows", "seconds"), [(False, 5.0), (True, 3.0)])
def test_it_waits_less_where_a_former_primary_may_hang(
    channel: BlockingChannel, follows: bool, seconds: float
) -> None:
    client: Any = SimpleNamespace(follows_primary=follows)
    channel.client = client
    assert channel.longest_wait == seconds


def test_not_endlessly_many_questions_are_kept(channel: BlockingChannel) -> None:
    for n in range(MOST_IDLE_REQUESTS + 2):
        channel.request((f"q{n}",), (), 1)
    assert len(channel.idle_requests) == MOST_IDLE_REQUESTS


def test_what_is_full_or_excluded_is_not_reserved(
    channel: BlockingChannel, put: Put
) -> None:
    for queue in ("x", "full", "free"):
        put("give", 1, queue=queue)
    channel.shared.exclude(["full"])
    channel.next_order = lambda: ("*",)  # type: ignore[method-assign]
    settled = channel.reserve(9)
    assert settled is not None
    assert [job.queue for job in settled.jobs] == ["free"]


@pytest.mark.parametrize(
    ("jobs", "before", "now", "outcomes", "rests"),
    [
        ([], 2, 2, [], True),
        ([], 2, 2, ["done"], False),
        ([], 1, 1, [], False),
        ([], 2, 4, [], False),
        (["job"], 1, 2, ["done"], True),
    ],
)
def test_a_child_rests_only_if_nothing_is_on_its_way(
    channel: BlockingChannel,
    jobs: list[str],
    before: int,
    now: int,
    outcomes: list[Any],
    rests: bool,
) -> None:
    channel.early_steps = now
    channel.buffer.outcomes.extend(outcomes)
    settled: Any = SimpleNamespace(jobs=jobs)
    assert channel.or_again(settled, before) is (settled if rests else None)
    assert channel.or_again(None, before) is None


@pytest.mark.parametrize(
    ("announced", "ago", "is_cut"),
    [(False, 0.0, True), (True, 0.0, False), (False, 40.0, True), (False, 60.0, False)],
)
def test_a_wait_that_is_over_too_soon_was_cut_short(
    announced: bool, ago: float, is_cut: bool
) -> None:
    began = time.monotonic() - ago
    if is_cut:
        with pytest.raises(InterruptedError):
            check_wait(announced=announced, began=began, seconds=100.0)
    else:
        check_wait(announced=announced, began=began, seconds=100.0)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BadArgument("too long"), True),
        (QlessError("refused"), True),
        (ServerError("away"), False),
        (ConnectionLost("away"), False),
        (ValueError("a defect"), False),
    ],
)
def test_only_what_is_asked_may_be_to_blame(
    error: BaseException, expected: bool
) -> None:
    assert is_about_the_call(error) is expected
