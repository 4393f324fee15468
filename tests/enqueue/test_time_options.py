"""What options of time do: not before, then for certain. Time is moved, not waited for."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings
from django.utils import timezone as django_timezone

from django_qless import job
from django_qless import jobs as known
from django_qless.conf.config_sync import sync_config
from django_qless.conf.connections import connections
from django_qless.core import LockLost
from django_qless.exceptions import InvalidOption
from django_qless.testing import captured_jobs, clock
from tests.jobs_app import timing
from tests.jobs_app.jobs import add
from tests.real_servers import poll

pytestmark = pytest.mark.django_db(transaction=True)

At = Callable[[float], int]


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    timing.ran.clear()


@pytest.fixture
def start(qless) -> float:
    """When the test began, by the server's clock."""
    return clock.now("default")


@pytest.fixture
def at(start, work) -> At:
    """Run what can be run this number of seconds after the start; return the number of runs."""
    return lambda seconds: _moved(start + seconds, work)


@pytest.fixture
def each_at(start, each_work) -> At:
    """Do the same in each of the ways in which pools run jobs."""
    return lambda seconds: _moved(start + seconds, each_work)


def _moved(moment: float, run: Callable[[], int]) -> int:
    with clock.travel_to("default", moment):
        return run()


@pytest.mark.parametrize("job", [timing.third_time, timing.athird_time])
def test_backoff(each_at, job) -> None:
    handle = job.delay()
    runs = [each_at(seconds) for seconds in (1, 2, 60, 62, 121, 123)]
    assert runs == [1, 0, 0, 1, 0, 1]
    assert timing.ran == [1, 2, 3]
    assert handle.result() == 3


def test_backoff_of_a_call(at) -> None:
    timing.third_time.using(backoff=5).delay()
    assert [at(seconds) for seconds in (1, 5.9, 6.1, 11, 11.2)] == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("delay", [60, 60.0, timedelta(minutes=1)])
def test_delay(at, delay) -> None:
    handle = add.using(delay=delay).delay(1)
    assert [at(seconds) for seconds in (1, 59, 61)] == [0, 0, 1]
    assert handle.result() == 1


def test_run_at(at, start) -> None:
    moment = datetime.fromtimestamp(start + 60, UTC)
    handle = add.using(run_at=moment).delay(1)
    assert [at(seconds) for seconds in (1, 59, 61)] == [0, 0, 1]
    assert handle.result() == 1


def test_delay_of_what_goes_on_in_another_queue(qless, start, at) -> None:
    handle = add.using(queue="first").delay(1)
    [job] = qless.settle("somebody", [], 1, ["first"]).jobs
    with clock.travel_to("default", start + 10):
        qless.complete(job.jid, job.token, "first", job.data, next="second", delay=30)
    assert [at(seconds) for seconds in (11, 39, 41)] == [0, 0, 1]
    assert handle.result() == 1


@pytest.mark.parametrize("verb", ["release", "retry"])
def test_delay_of_what_is_given_back(qless, start, at, verb) -> None:
    handle = add.using(retries=1).delay(1)
    [job] = qless.settle("somebody", [], 1, ["default"]).jobs
    with clock.travel_to("default", start + 10):
        if verb == "release":
            qless.release(job.jid, job.token, 30)
        else:
            qless.retry(job.jid, "default", job.token, 30)
    assert [at(seconds) for seconds in (11, 39, 41)] == [0, 0, 1]
    assert handle.result() == 1


@pytest.mark.parametrize("way", ["seconds", "timedelta", "datetime"])
def test_expires(at, start, way) -> None:
    expires = {
        "seconds": 60,
        "timedelta": timedelta(seconds=60),
        "datetime": datetime.fromtimestamp(start + 60, UTC),
    }[way]
    in_time = add.using(expires=expires).delay(1)
    assert at(59) == 1
    late = add.using(expires=expires).delay(2)
    assert at(61) == 0
    assert in_time.result() == 1
    now = late.refresh()
    assert now.state == "failed"
    assert now.failure.group == "expired"


def test_debounce(at, start) -> None:
    def put(seconds: float) -> str:
        with clock.travel_to("default", start + seconds):
            return timing.index.delay(1).jid

    first = put(0)
    assert at(9) == 0
    assert put(9) == first  # the wait begins again
    assert at(18) == 0
    assert at(20) == 1
    assert put(30) != first
    # It starts ten times its debounce after the first, however often it is enqueued.
    assert len({put(seconds) for seconds in range(38, 130, 8)}) == 1
    assert [at(seconds) for seconds in (129.5, 131)] == [0, 1]
    assert timing.ran == [1, 1]


def test_unique_for_a_period(qless, work) -> None:
    first = timing.hourly.delay(1)
    work()
    assert first.result() == 1
    # Also when the job is complete, and until the server takes the key away.
    assert timing.hourly.delay(1).created is False
    [name] = qless.redis.keys("ql:unique:*")
    assert 3_500_000 < qless.redis.pttl(name) <= 3_600_000
    short = timing.hourly.using(unique_for=0.05)
    other = short.delay(2)
    again = poll(
        lambda: (put := short.delay(2)).created and put, what="the period is over"
    )
    assert again.jid != other.jid


@pytest.mark.parametrize(
    ("holds", "while_it_runs"), [("waiting", True), ("running", False)]
)
def test_unique_for_a_state(qless, holds, while_it_runs) -> None:
    put = add.using(unique=True, unique_for=holds).delay
    first = put(1)
    assert put(1).created is False
    [job] = qless.settle("somebody", [], 1, ["default"]).jobs
    assert job.jid == first.jid
    assert put(1).created is while_it_runs
    qless.complete(job.jid, job.token, "default", job.data)
    assert put(1).created is not while_it_runs


def test_the_time_of_a_result(qless, work) -> None:
    handle = add.using(result_ttl=60).delay(5)
    hour = add.delay(6)
    work()
    for each, seconds in ((handle, 60), (hour, 3600)):
        left = qless.redis.pttl(f"ql:result:{each.jid}") / 1000
        assert seconds - 30 < left <= seconds


def test_heartbeat_of_a_queue(qless, start, settings) -> None:
    default = {**settings.QLESS["default"], "QUEUES": {"mail": {"heartbeat": 5}}}
    with override_settings(QLESS={"default": default}):
        client = connections["default"]
        sync_config("default")
        grace = float(client.config_get("grace-period"))

        def taken(seconds: float) -> list[str]:
            with clock.travel_to("default", start + seconds):
                return [each.jid for each in client.settle("b", [], 1, ["mail"]).jobs]

        with clock.travel_to("default", start):
            handle = add.using(queue="mail").delay(1)
            [job] = client.settle("a", [], 1, ["mail"]).jobs
        assert taken(4.9) == []
        with clock.travel_to("default", start + 4.9):
            client.heartbeat(job.jid, job.token)
        assert taken(9.8) == []
        assert taken(10) == []  # which gives notice that the lock is lost
        assert known[handle.jid].state == "running"
        assert taken(10 + grace - 0.1) == []
        assert taken(10 + grace + 0.1) == [handle.jid]
        with pytest.raises(LockLost):
            client.complete(job.jid, job.token, "mail", job.data)


@pytest.mark.parametrize("of", ["call", "queue"])
def test_timeout(qless, each_work, settings, of) -> None:
    if of == "call":
        handle = timing.waits.using(timeout=0.05).delay(30)
        assert each_work() == 1
    else:
        default = {
            **settings.QLESS["default"],
            "QUEUES": {"default": {"timeout": 0.05}},
        }
        with override_settings(QLESS={"default": default}):
            handle = timing.waits.delay(30)
            assert each_work() == 1
            handle = handle.refresh()
    now = connections["default"].get(handle.jid)
    assert now is not None
    assert now.failure is not None
    assert now.failure.group == "timeout"
    assert timing.ran == ["began"]


def test_urgent_job_runs_first_of_all_that_fell_due_while_no_worker_ran(at) -> None:
    for seconds in (30, 20, 10):
        timing.note.using(delay=seconds).delay(seconds)
    timing.note.using(delay=40, priority=100).delay("urgent")
    assert at(41) == 4
    assert timing.ran == ["urgent", 10, 20, 30]


def test_urgent_tick_goes_before_those_of_other_schedules(qless, at) -> None:
    for name, offset, priority in (("plain", 10, 0), ("urgent", 20, 100)):
        data = json.dumps({"v": 1, "args": [name]})
        qless.schedule_set(
            name, "default", timing.note.name, data, every=60, offset=offset,
            priority=priority,
        )  # fmt: skip
    assert at(30) == 2
    assert timing.ran == ["urgent", "plain"]


@job("timed", entity=True)
def sync(batch: dict[str, list[int]]) -> None: ...


@override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo")
def test_times_without_a_zone_are_in_that_of_the_project(at) -> None:
    soon = django_timezone.now() + timedelta(seconds=60)
    assert soon.tzinfo is None
    handle = add.using(run_at=soon).delay(1)
    aware = add.using(run_at=datetime.now(UTC) + timedelta(seconds=60))
    aware.delay(2)
    later = soon + timedelta(seconds=1)
    expired = add.using(run_at=soon, expires=later).delay(3)
    entity = sync.push("a", 2, score=later, run_at=soon)
    sync.push("a", 1, score=soon)
    assert entity.refresh().payloads() == [1, 2]
    with captured_jobs() as captured:
        add.using(run_at=soon).delay(4)
    assert captured.of(add, 4, run_at=soon)
    assert [at(seconds) for seconds in (30, 90)] == [0, 3]
    assert handle.result() == 1
    assert expired.refresh().failure.group == "expired"


@pytest.mark.parametrize("option", ["score", "run_at"])
def test_push_refuses_times_without_a_zone(option) -> None:
    with pytest.raises(InvalidOption, match=f"{option} must be an aware datetime"):
        sync.push("a", 1, **{option: datetime(2030, 1, 1)})
