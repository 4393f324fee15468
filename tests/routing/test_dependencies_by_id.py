"""Jobs that depend on jobs of other namespaces, of which they know the ids alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_qless import current_job, job
from django_qless.conf.connections import connections
from django_qless.conf.each import ask_each
from django_qless.core import ConnectionLost, JobNotFound
from django_qless.operations.crossing import carry_all
from django_qless.signals import job_enqueued
from django_qless.testing import run_jobs
from tests.jobs_app.jobs import add
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS

if TYPE_CHECKING:
    from tests.routing.conftest import Places

seen: list[object] = []


@job
def total() -> None:
    """Note the results of what it depends on."""
    now = current_job()
    assert now is not None
    seen.append(now.dependency_results())


@pytest.fixture(autouse=True)
def forgetful(places: Places) -> None:
    """Let records go at once."""
    seen.clear()
    for name in NAMES:
        places[name].config_set("jobs-history-count", 1)


def sound(places: Places) -> None:
    for name in NAMES:
        assert places[name].audit().violations == []


def put_mine(places: Places) -> None:
    """Put a job whose id we have not drawn."""
    data = '{"v":1,"args":[3,4],"kwargs":{}}'
    places[REPORTS].put("", "report.x", "mine", "tests.jobs_app.jobs.add", data)


def test_a_job_waits_for_ids_of_three_namespaces(places: Places) -> None:
    mail = add.using(queue="mail").delay(1, 2)
    put_mine(places)
    here = add.using(queue="q").delay(5, 6)
    last = total.using(after_jids=[mail.jid, "mine", here.jid]).delay()
    assert last.refresh().state == "depends"
    assert last.refresh().alias == DEFAULT
    run_jobs()
    assert seen == [{mail.jid: 3, "mine": 7, here.jid: 11}]
    sound(places)


def test_the_usual_job_asks_nobody_else(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = add.using(queue="q").delay(5, 6)
    asked: list[list[str]] = []

    def asking(names: list[str], *args: Any) -> Any:
        asked.append(names)
        return ask_each(names, *args)

    monkeypatch.setattr("django_qless.job_types.lookup.ask_each", asking)
    total.using(after_jids=[here.jid]).delay()
    assert asked == []
    # We have drawn this id: its end says where the job is, in one call.
    mail = add.using(queue="mail").delay(1, 2)
    total.using(after_jids=[mail.jid]).delay()
    assert asked == [[MAIL]]
    # Of others all are asked at the same time.
    put_mine(places)
    total.using(after_jids=["mine"]).delay()
    assert [sorted(names) for names in asked[1:]] == [sorted(NAMES)]


def test_a_job_that_is_nowhere_is_not_found(places: Places) -> None:
    mail = add.using(queue="mail").delay(1, 2)
    for jids in (["nobody"], [mail.jid, "nobody"]):
        with pytest.raises(JobNotFound):
            total.using(after_jids=jids).delay()
    canceled = add.using(queue="mail").delay(1, 2)
    canceled.cancel()
    with pytest.raises(JobNotFound):
        total.using(after_jids=[canceled.jid]).delay()
    # What is given by its id is here, or is found once; what is given as a handle is gone.
    here, gone = add.using(queue="q").delay(1, 2), add.using(queue="q").delay(3, 4)
    gone.cancel()
    with pytest.raises(JobNotFound, match=gone.jid):
        total.using(after=[gone], after_jids=[here.jid, mail.jid]).delay()
    assert [each.name for each in places[DEFAULT].queues()] == ["q"]
    assert places[DEFAULT].crossing_waiting() == []


def test_a_server_that_is_away_may_have_it(places: Places) -> None:
    put_mine(places)
    mail = add.using(queue="mail").delay(1, 2)
    places.there.kill()
    with pytest.raises(ConnectionLost):
        total.using(after_jids=["mine"]).delay()
    assert total.using(after_jids=[mail.jid]).delay().state == "depends"
    places.there.start()


def test_a_moved_job_is_followed(places: Places) -> None:
    report = add.using(queue="q").delay(3, 4)
    report.move("report.x")
    carry_all("default")
    total.using(after_jids=[report.jid]).delay()
    run_jobs()
    assert seen == [{report.jid: 7}]
    sound(places)


def test_many_jobs_of_several_calls(places: Places) -> None:
    """Those of the first call are enqueued once, and all are announced once."""
    mail = add.using(queue="mail").delay(1, 2)
    late = total.using(after_jids=[mail.jid], queue="q")
    told: list[str] = []

    def tell(sender: object, handle: Any, **_: Any) -> None:
        told.append(handle.jid)

    job_enqueued.connect(tell)
    try:
        handles = total.using(queue="q").enqueue_many(
            [*(total.args() for _ in range(1000)), *(late.args() for _ in range(3))]
        )
    finally:
        job_enqueued.disconnect(tell)
    assert sorted(told) == sorted(each.jid for each in handles)
    counts = places[DEFAULT].queue_counts("q")
    assert (counts.waiting, counts.depends) == (1000, 3)
    assert all(each.created for each in handles)


def test_a_job_of_the_same_call(places: Places) -> None:
    mail = add.using(queue="mail").delay(1, 2)
    first = total.using(queue="q", jid="first")
    second = total.using(queue="q", after_jids=["first", mail.jid])
    total.enqueue_many([first.args(), second.args()])
    run_jobs()
    assert seen == [{}, {mail.jid: 3}]


def test_from_asynchronous_code(places: Places) -> None:
    async def body() -> None:
        report = await add.using(queue="report.x").adelay(3, 4)
        await total.using(after_jids=[report.jid]).adelay()
        with pytest.raises(JobNotFound):
            await total.using(after_jids=["nobody"]).adelay()
        await connections.aclose()

    asyncio.run(body())
    run_jobs()
    assert [list(each.values()) for each in seen] == [[7]]  # type: ignore[attr-defined]


@pytest.mark.django_db(transaction=True)
def test_on_commit(places: Places, caplog: pytest.LogCaptureFixture) -> None:
    mail = add.using(queue="mail").delay(1, 2)
    with transaction.atomic():
        late = total.using(after_jids=[mail.jid]).delay()
        lost = total.using(after_jids=["nobody"]).delay()
    assert late.refresh().state == "depends"
    assert (lost.created, lost.pending) == (False, False)
    assert "was not enqueued on commit" in caplog.text


def test_an_answer_that_is_lost_makes_one_job_and_one_stand_in(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that delivers dies after the target has heard that it is watched."""
    report = add.using(queue="report.x").delay(3, 4)
    total.using(after_jids=[report.jid]).delay()

    class Died(BaseException):
        """It was killed here."""

    def die(*args: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(type(places[DEFAULT]), "crossing_delivered", die)
        for _ in range(2):
            with pytest.raises(Died):
                carry_all("default")
    run_jobs()
    assert seen == [{report.jid: 7}]
    assert [each[:2] for each in places[DEFAULT].crossing_waiting()] == []
    assert places[MAIL].queues() == []
    sound(places)
    assert places[REPORTS].crossing_waiting() == []
