"""Unique keys that hold in all namespaces of an alias."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings

from django_qless import DuplicateJob, job, workflow
from django_qless.conf.connections import connections
from django_qless.core import ConnectionLost, JobNotFound, WrongState
from django_qless.core.commands.claims import Claim
from django_qless.enqueue import claims
from django_qless.exceptions import InvalidOption
from django_qless.operations.audit import audit_namespace
from django_qless.operations.crossing import carry_all
from django_qless.signals import job_enqueued
from django_qless.testing import clock, enqueued_jobs, run_jobs
from tests.jobs_app.jobs import send_welcome
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS, Places

KEY = f"{__name__}.sync:shop"

QUEUES = {DEFAULT: "default", MAIL: "mail", REPORTS: "report.x"}


@job(unique=lambda *args: "shop", unique_scope="global")
def sync(number: int) -> int:
    return number


@job(unique=lambda *args: "shop", unique_scope="global", unique_for="waiting")
def index(number: int) -> int:
    return number


@job(unique="week", unique_scope="global", unique_for=1000, on_conflict="refuse")
def weekly(number: int) -> int:
    return number


@job("other", unique="before", unique_scope="global")
def before() -> None:
    """Is to come first."""


@job("other", after="before")
def last() -> None:
    """Comes after a job whose key is claimed."""


def in_queue(name: str) -> Any:
    return sync.using(queue=QUEUES[name])


def live(places: Places) -> list[str]:
    """Return the namespaces that have a job of a queue, once for each job."""
    return [
        name
        for name in NAMES
        for counts in places[name].queues()
        for _ in range(counts.waiting + counts.running + counts.scheduled)
    ]


def sound(places: Places) -> None:
    for name in NAMES:
        assert audit_namespace(places[name], 250).violations == []


def homes_of_keys(number: int) -> list[str]:
    return [claims.claimed_in("default", f"key {n}") for n in range(number)]


def test_another_namespace_takes_only_its_share_of_the_keys(places: Places) -> None:
    found = homes_of_keys(300)
    assert set(found) == set(NAMES)
    setting = {
        "default": {
            "LOCATION": places.here.url,
            "NAMESPACES": {"": "ql:", "mail": "ql-mail:"},
        }
    }
    with override_settings(QLESS=setting):
        fewer = homes_of_keys(300)
    assert all(a in (b, REPORTS) for a, b in zip(found, fewer, strict=True))


def test_one_job_has_the_key_whatever_its_queue(places: Places) -> None:
    first = in_queue(MAIL).delay(1)
    assert (first.created, first.alias) == (True, MAIL)
    for name in NAMES:
        second = in_queue(name).delay(2)
        assert (second.created, second.jid, second.alias) == (False, first.jid, MAIL)
    third, fourth = in_queue(REPORTS).enqueue_many([sync.args(3), sync.args(4)])
    assert (third.jid, fourth.jid) == (first.jid, first.jid)
    with pytest.raises(DuplicateJob, match="which is in namespace 'default/mail'") as e:
        in_queue(REPORTS).using(on_conflict="refuse").delay(5)
    assert (e.value.jid, e.value.namespace) == (first.jid, MAIL)
    assert second.refresh().data == first.data
    assert live(places) == [MAIL]
    run_jobs("mail")
    # Its namespace knows better than the claim, which is not released yet.
    assert in_queue(REPORTS).delay(6).created
    carry_all("default")
    assert not in_queue(DEFAULT).delay(7).created
    assert live(places) == [REPORTS]
    sound(places)


def test_a_claim_is_released_by_the_outbox(places: Places) -> None:
    home = claims.claimed_in("default", KEY)
    away = next(name for name in NAMES if name != home)
    handle = in_queue(away).delay(1)
    assert held(places, home) == handle.jid
    handle.cancel()
    assert held(places, home) == handle.jid
    carry_all("default")
    assert held(places, home) == ""


def held(places: Places, home: str, key: str = KEY) -> str:
    """Return the jid of the job that has a key, without claiming it."""
    client = places[home]
    found = client.redis.hget(f"{client.prefix}claim:{key}", "jid")
    return found.decode() if found else ""


def test_without_namespaces_it_is_a_key_as_any_other(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "claim", None)
    with override_settings(QLESS={"default": {"LOCATION": places.here.url}}):
        first, second = sync.delay(1), sync.delay(2)
        assert (first.created, second.jid) == (True, first.jid)


def test_of_many_at_once_one_is_enqueued(places: Places) -> None:
    handles: list[Any] = []

    def enqueue(number: int) -> None:
        handles.append(in_queue(NAMES[number % 3]).delay(number))

    for _ in range(5):
        handles.clear()
        threads = [threading.Thread(target=enqueue, args=(n,)) for n in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [each.created for each in handles].count(True) == 1
        assert len({each.jid for each in handles}) == 1
        [name] = live(places)
        run_jobs(QUEUES[name])


def test_from_asynchronous_code_and_on_commit(places: Places) -> None:
    async def enqueue() -> list[Any]:
        one = await in_queue(MAIL).adelay(1)
        many = await in_queue(REPORTS).aenqueue_many([sync.args(2)])
        await connections.aclose()
        return [one, *many]

    first, second = asyncio.run(enqueue())
    assert (first.created, second.created) == (True, False)
    assert second.jid == first.jid


@pytest.mark.django_db(transaction=True)
def test_a_key_is_claimed_on_commit(places: Places) -> None:
    with transaction.atomic():
        first = in_queue(MAIL).delay(1)
        second = in_queue(REPORTS).delay(2)
        assert live(places) == []
    assert (first.created, second.created) == (True, False)
    assert second.jid == first.jid
    assert live(places) == [MAIL]


@pytest.mark.django_db(transaction=True)
def test_what_is_refused_on_commit_has_the_handle_of_the_job_elsewhere(
    places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    one = sync.using(unique=lambda number: f"n{number}", on_conflict="refuse")
    taken = one.using(queue="mail").delay(3)
    with transaction.atomic():
        alone = one.using(queue="report.x").delay(3)
        many = one.enqueue_many([one.args(n) for n in (8, 3, 9)])
    assert [handle.created for handle in (alone, *many)] == [False, True, False, True]
    for handle in (alone, many[1]):
        assert (handle.jid, handle.alias) == (taken.jid, MAIL)
        assert handle.refresh().data == taken.data
    assert caplog.text.count("a job was not enqueued on commit: The unique key") == 2
    assert live(places) == [DEFAULT, DEFAULT, MAIL]
    sound(places)


def test_of_a_batch_only_those_are_enqueued_whose_keys_are_free(places: Places) -> None:
    one = sync.using(unique=lambda number: f"n{number}")
    taken = one.using(queue="mail").delay(3)
    handles = one.enqueue_many([one.args(n) for n in (1, 3, 1, 2)])
    assert [each.created for each in handles] == [True, False, False, True]
    assert handles[1].jid == taken.jid
    assert handles[2].jid == handles[0].jid
    assert places.waiting("default") == [2, 0, 0]
    refusing = one.using(on_conflict="refuse")
    with pytest.raises(DuplicateJob):
        refusing.enqueue_many([refusing.args(n) for n in (8, 3, 9)])
    # The others gave back what they had claimed.
    carry_all("default")
    assert one.delay(8).created


def test_a_key_for_a_while_outlives_its_job(places: Places) -> None:
    first = weekly.using(queue="mail").delay(1)
    run_jobs("mail")
    carry_all("default")
    assert first.refresh().state == "complete"
    with pytest.raises(DuplicateJob):
        weekly.using(queue="report.x").delay(2)


def test_until_it_starts(places: Places) -> None:
    first = index.using(queue="mail").delay(1)
    assert not index.using(queue="report.x").delay(2).created
    [running] = places[MAIL].pop("mail", "w", 1)
    second = index.using(queue="report.x").delay(3)
    assert second.created
    # It is tried again while another has the key.
    running.retry()
    carry_all("default")
    third = index.delay(4)
    assert (third.created, third.jid) == (False, second.jid)
    assert first.refresh().state == "waiting"


class Died(BaseException):
    """The process died here."""


def lapse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each claim lapse at once."""
    monkeypatch.setattr(claims, "lease", lambda client: 1e-6)


def test_a_producer_that_dies_before_the_put_keeps_the_key_for_the_lease(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*args: Any) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(claims.EnqueueBatch, "send", die)
        with pytest.raises(Died):
            in_queue(MAIL).delay(1)
    # Its put may still be on its way.
    assert not in_queue(REPORTS).delay(2).created
    with monkeypatch.context() as patched:
        lapse(patched)
        patched.setattr(claims.EnqueueBatch, "send", die)
        places[claims.claimed_in("default", KEY)].redis.delete(*claim_keys(places))
        with pytest.raises(Died):
            in_queue(MAIL).delay(3)
    assert in_queue(REPORTS).delay(4).created
    assert live(places) == [REPORTS]
    sound(places)


def claim_keys(places: Places) -> list[str]:
    client = places[claims.claimed_in("default", KEY)]
    return [f"{client.prefix}claim:{KEY}"]


def test_a_producer_that_is_too_slow_is_refused(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another has taken the key between its claim and its put."""
    send, others = claims.EnqueueBatch.send, []

    def slow(batch: Any) -> None:
        if not others:
            others.append(None)
            others[0] = in_queue(REPORTS).delay(2)
        send(batch)

    lapse(monkeypatch)
    monkeypatch.setattr(claims.EnqueueBatch, "send", slow)
    with pytest.raises(WrongState, match="came too late: enqueue it again"):
        in_queue(MAIL).delay(1)
    assert others[0].created
    assert live(places) == [REPORTS]
    # The claim of the other is not released.
    assert not in_queue(MAIL).delay(3).created


def test_what_comes_first_cannot_be_claimed_elsewhere(places: Places) -> None:
    with pytest.raises(
        InvalidOption, match=r"last comes after .*\.before, and with uni"
    ):
        last.delay()
    assert live(places) == []


def test_a_claim_that_cannot_be_released_hides_no_refusal(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = next(
        f"k{n}"
        for n in range(100)
        if claims.claimed_in("default", f"{sync.name}:k{n}") == REPORTS
    )
    one = sync.using(unique=key, queue="mail")
    send = claims.EnqueueBatch.send

    def lose(batch: claims.EnqueueBatch) -> None:
        places.there.kill()
        send(batch)

    gone = send_welcome.delay(1)
    gone.cancel()
    monkeypatch.setattr(claims.EnqueueBatch, "send", lose)
    with pytest.raises(JobNotFound, match=gone.jid):
        one.using(after=gone).delay(1)
    places.there.start()
    assert live(places) == []


def test_a_lost_namespace_may_still_have_the_job(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    lapse(monkeypatch)
    key = next(
        f"k{n}"
        for n in range(100)
        if claims.claimed_in("default", f"{sync.name}:k{n}") != REPORTS
    )
    one = sync.using(unique=key)
    one.using(queue="report.x").delay(1)
    places.there.kill()
    with pytest.raises(ConnectionLost):
        one.using(queue="mail").delay(2)
    assert live_here(places) == []
    places.there.start()


def live_here(places: Places) -> list[int]:
    return [
        counts.waiting
        for name in (DEFAULT, MAIL)
        for counts in places[name].queues()
        if counts.waiting
    ]


def test_a_claim_of_a_namespace_that_is_gone_from_the_setting_lapses(
    places: Places,
) -> None:
    home = claims.claimed_in("default", KEY)
    places[home].claim([Claim(KEY, "jid", "default/gone")], 60)
    assert not in_queue(MAIL).delay(1).created
    places[home].redis.hset(claim_keys(places)[0], "lapses", "1")
    assert in_queue(MAIL).delay(2).created


def test_a_job_that_is_moved_keeps_its_key(places: Places) -> None:
    first = in_queue(MAIL).delay(1)
    first.move("report.x")
    assert not in_queue(DEFAULT).delay(2).created
    carry_all("default")
    again = in_queue(DEFAULT).delay(3)
    assert (again.created, again.alias) == (False, REPORTS)
    run_jobs("report.x")
    carry_all("default")
    assert in_queue(DEFAULT).delay(4).created
    sound(places)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_conflict": "replace"}, "contradicts on_conflict=.replace."),
        ({"debounce": 5}, "contradicts debounce"),
        ({"unique": None}, "needs a unique key"),
        ({"unique_scope": "world"}, 'unique_scope must be "namespace" or "global"'),
    ],
)
def test_what_contradicts_it_is_refused(options: dict[str, Any], words: str) -> None:
    given = {"unique": True, "unique_scope": "global", **options}
    with pytest.raises(InvalidOption, match=words):
        job(**given)(lambda: None)


def test_what_is_put_with_others_in_one_call_is_refused(places: Places) -> None:
    flow = workflow("two")
    with pytest.raises(InvalidOption, match="is to be claimed in all namespaces"):
        flow.add(sync.args(1))
    with pytest.raises(InvalidOption, match=f"key of {before.name} is to be claimed"):
        flow.add(last.args())
    with pytest.raises((InvalidOption, ImproperlyConfigured), match="on_commit=True"):
        sync.using(on_commit="outbox").delay(1)


@job
def gather() -> str:
    return "goods"


@job(unique=lambda number: f"{number}", unique_scope="global", after="gather")
def publish(number: int) -> int:
    return number


def test_what_a_job_comes_after_is_enqueued_only_with_it(places: Places) -> None:
    heard: list[str] = []

    def hear(handle: Any, **more: Any) -> None:
        heard.append(handle.name.rpartition(".")[2])

    job_enqueued.connect(hear)
    try:
        jobs = publish.enqueue_many([publish.args(n) for n in (1, 1, 2)])
        again = publish.delay(1)
    finally:
        job_enqueued.disconnect(hear)
    assert [each.created for each in (*jobs, again)] == [True, False, True, False]
    assert heard == ["gather", "publish", "publish"]
    counts = places[DEFAULT].queue_counts("default")
    assert (counts.waiting, counts.depends) == (1, 2)
    run_jobs()
    assert [each.result() for each in jobs] == [1, 1, 2]
    sound(places)


def test_what_a_duplicate_comes_after_does_not_count_as_enqueued(
    places: Places,
) -> None:
    publish.delay(1)
    publish.delay(1)
    names = [each.name.rpartition(".")[2] for each in enqueued_jobs()]
    assert names == ["gather", "publish"]


def test_a_tick_adds_no_job_while_another_namespace_has_its_key(places: Places) -> None:
    first = in_queue(MAIL).delay(1)
    schedule = sync.recur(2, every=3600)
    assert [run.name for run in run_jobs("default")] == [f"{sync.name}:tick"]
    assert live(places) == [MAIL]
    first.cancel()
    carry_all("default")
    schedule.run()
    assert [run.name for run in run_jobs("default")] == [f"{sync.name}:tick", sync.name]
    sound(places)


def test_expired_job_does_not_hold_its_key(places: Places) -> None:
    first = in_queue(MAIL).using(expires=2).delay(1)
    with clock.travel_to(MAIL, clock.now(MAIL) + 3):
        second = in_queue(REPORTS).delay(2)
    assert second.created
    assert first.refresh().failure.group == "expired"
    carry_all("default")
    assert not in_queue(DEFAULT).delay(3).created
    sound(places)
