"""Jobs that are moved into another namespace, by way of the outbox."""

from __future__ import annotations

import asyncio
from threading import Timer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_qless.conf.connections import connections
from django_qless.core import ConnectionLost, WrongState
from django_qless.core.commands.crossing import Target
from django_qless.exceptions import JobGone
from django_qless.monitoring.collector import QlessCollector
from django_qless.operations.crossing import Carrier, carry_all
from django_qless.operations.objects import jobs
from django_qless.runtime.crossing import carry_rest, keep_carrying
from django_qless.runtime.environment import DjangoEnvironment
from tests.jobs_app.jobs import add
from tests.management.commands import data, doctor_words, run
from tests.routing.conftest import DEFAULT, MAIL, REPORTS

if TYPE_CHECKING:
    from tests.routing.conftest import Places


def carry(name: str = DEFAULT) -> int:
    """Deliver once what waits in one namespace."""
    return Carrier(name).carry(connections[name].crossing_due().targets)


def test_a_job_moves_to_another_server_and_is_found_there(places: Places) -> None:
    handle = add.using(queue="q", tags=["x"], priority=3).delay(1, 2)
    handle.move("report.x")
    assert places[DEFAULT].crossing_waiting()[0][:2] == (REPORTS, 1)
    with pytest.raises(JobGone):
        handle.refresh()
    assert carry() == 1
    now = handle.refresh()
    assert (now.alias, now.queue, now.state) == (REPORTS, "report.x", "waiting")
    assert (now.tags, now.priority, now.data) == (["x"], 3, handle.data)
    assert jobs[handle.jid].alias == REPORTS
    assert [each["what"] for each in now.history] == ["put", "put"]
    handle.tag("y")
    assert handle.refresh().tags == ["x", "y"]
    handle.cancel()
    assert jobs[handle.jid].canceled is not None
    assert places[DEFAULT].crossing_waiting() == []


def test_a_moved_job_is_found_though_another_namespace_is_away(places: Places) -> None:
    handle = add.using(queue="mail").delay(1, 2)
    handle.move("q")
    assert carry(MAIL) == 1
    places.there.kill()
    assert jobs[handle.jid].alias == DEFAULT
    assert asyncio.run(jobs.aget(handle.jid)).alias == DEFAULT


def test_a_burst_ends_when_its_outbox_is_empty(places: Places) -> None:
    """Also of what is delivered to several namespaces, and in several rounds."""
    handles = [add.using(queue="q").delay(n, 2) for n in range(300)]
    for n, handle in enumerate(handles):
        handle.move("mail" if n % 2 else "report.x")
    DjangoEnvironment(DEFAULT).deliver_outbox()
    assert places[DEFAULT].crossing_waiting() == []
    assert {handle.refresh().alias for handle in handles} == {MAIL, REPORTS}


def test_what_a_burst_cannot_deliver_is_told(
    places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    add.using(queue="q").delay(1, 2).move("report.x")
    mail = add.using(queue="q").delay(1, 2)
    mail.move("mail")
    places.there.kill()
    carry_rest(DEFAULT, 0.1)
    assert mail.refresh().alias == MAIL
    assert f"the outbox is not empty: left={REPORTS}:1" in caplog.text


def test_a_burst_waits_for_a_namespace_that_comes_back(places: Places) -> None:
    handle = add.using(queue="q").delay(1, 2)
    handle.move("report.x")
    places.there.kill()
    back = Timer(0.3, places.there.start)
    back.start()
    carry_rest(DEFAULT, 10)
    back.join()
    assert handle.refresh().alias == REPORTS


def test_a_namespace_that_does_not_answer_is_told_at_each_end(
    places: Places, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, until it has answered again."""
    caplog.set_level("DEBUG", "django_qless.worker")
    nowhere = {"LOCATION": "unix:///nowhere.sock", "PATIENCE": 0.01}
    setting = override_settings(QLESS={"default": nowhere})
    troubles = [None, ConnectionLost("gone again"), RuntimeError("a bug")]
    pauses = 0

    class Ended(BaseException):
        """The process is killed here."""

    def carry(self: Carrier, targets: object) -> int:
        trouble = troubles.pop(0)
        if trouble is not None:
            raise trouble
        return 1

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 2:
            setting.disable()
        elif pauses == 4:
            raise Ended

    monkeypatch.setattr(Carrier, "carry", carry)
    monkeypatch.setattr(
        "django_qless.runtime.crossing.time", SimpleNamespace(sleep=pause)
    )
    setting.enable()
    with pytest.raises(Ended):
        keep_carrying(DEFAULT)
    told = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert [level for level, _ in told] == ["WARNING", "DEBUG", "WARNING", "ERROR"]
    assert told[0][1].startswith("the outbox is not delivered: error=")
    assert told[0][1] == told[1][1]
    assert "error=gone again" in told[2][1]
    assert told[3][1] == f"the outbox is not delivered: namespace={DEFAULT}"


def test_a_server_that_never_lets_it_wait_is_told_once(
    places: Places, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "django_qless.worker")
    pauses = 0

    class Ended(BaseException):
        """The process is killed here."""

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            raise Ended

    monkeypatch.setattr(
        "django_qless.runtime.crossing.time", SimpleNamespace(sleep=pause)
    )
    server = places.here.client()
    server.acl_setuser("default", enabled=True, nopass=True, commands=["-blpop"])
    try:
        with pytest.raises(Ended):
            keep_carrying(DEFAULT)
    finally:
        server.acl_setuser("default", enabled=True, nopass=True, commands=["+blpop"])
    told = [(each.levelname, "blpop" in each.getMessage()) for each in caplog.records]
    assert told == [("WARNING", True), ("DEBUG", True), ("DEBUG", True)]


def test_a_worker_that_ends_while_its_server_is_away_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nowhere = {"LOCATION": "unix:///nowhere.sock", "PATIENCE": 0.01}
    with override_settings(QLESS={"default": nowhere}):
        carry_rest(DEFAULT)
        assert carry_all("default") == 0
    assert "the outbox is not delivered: error=" in caplog.text


def test_a_namespace_that_goes_away_after_it_got_a_job_is_not_told(
    places: Places, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "django_qless")
    add.using(queue="q").delay(1, 2).move("report.x")
    deliver = Carrier._deliver

    def deliver_last(self: Carrier, *args: Any) -> None:
        deliver(self, *args)
        places.there.kill()

    monkeypatch.setattr(Carrier, "_deliver", deliver_last)
    assert carry() == 1
    assert f"namespace {REPORTS} does not answer" in caplog.text
    assert places[DEFAULT].crossing_waiting() == []


def test_what_was_read_long_ago_is_read_again(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = add.using(queue="q").delay(1, 2)
    handle.move("mail")
    with monkeypatch.context() as patch:
        patch.setattr("django_qless.operations.crossing.FRESH", -1)
        assert carry() == 0
    assert places[DEFAULT].crossing_waiting()[0][:2] == (MAIL, 1)
    assert carry() == 1
    assert handle.refresh().alias == MAIL


def test_it_is_found_though_a_namespace_is_away_that_does_not_have_it(
    places: Places,
) -> None:
    handle = add.using(queue="q").delay(1, 2)
    handle.move("mail")
    carry()
    places.there.kill()
    assert jobs[handle.jid].alias == MAIL


def test_asynchronous_code_follows_it(places: Places) -> None:
    asyncio.run(_follow(places))


async def _follow(places: Places) -> None:
    handle = await add.using(queue="q").adelay(1, 2)
    await handle.amove("mail")
    carry()
    assert (await handle.arefresh()).alias == MAIL
    await handle.atag("y")
    found = await jobs.aget(handle.jid)
    assert found is not None
    assert (found.alias, found.tags) == (MAIL, ["y"])
    await connections.aclose()


def test_what_cannot_leave_says_why(places: Places) -> None:
    first = add.using(queue="q").delay(1, 2)
    add.using(queue="q", after=first).delay(1, 2)
    with pytest.raises(WrongState, match="has dependents: move it when they are gone"):
        first.move("mail")
    assert first.refresh().queue == "q"


def test_a_target_that_is_away_does_not_hold_up_the_others(places: Places) -> None:
    to_reports = add.using(queue="q").delay(1, 2)
    to_mail = add.using(queue="q").delay(1, 2)
    to_reports.move("report.x")
    to_mail.move("mail")
    places.there.kill()
    carrier = Carrier(DEFAULT)
    targets = places[DEFAULT].crossing_due().targets
    assert [each.name for each in targets] == [REPORTS, MAIL]
    assert carrier.carry(targets) == 1
    assert to_mail.refresh().alias == MAIL
    [left] = places[DEFAULT].crossing_due().targets
    assert left.name == REPORTS
    assert 0 < carrier.pause([left]) <= 1.0
    assert carrier.carry([left]) == 0
    places.there.start()
    assert carry() == 1
    assert to_reports.refresh().alias == REPORTS


def test_pauses_grow(places: Places) -> None:
    add.using(queue="q").delay(1, 2).move("report.x")
    places.there.kill()
    carrier, target = Carrier(DEFAULT), Target(REPORTS, 1, 0.0)
    pauses = []
    for _ in range(3):
        carrier.carry([target])
        pauses.append(round(carrier.pause([target])))
        carrier._troubles[REPORTS].due = 0.0
    assert pauses == [1, 2, 4]


def test_a_target_that_is_no_longer_in_the_setting_waits(places: Places) -> None:
    jid = add.using(queue="q").delay(1, 2).jid
    places[DEFAULT].send_each("default/gone", [jid], "q")
    assert carry() == 0
    assert places[DEFAULT].crossing_waiting()[0][:2] == ("default/gone", 1)


def test_a_deliverer_that_dies_at_each_step_has_one_effect(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its target keeps no record of what has ended."""
    places[REPORTS].config_set("jobs-history-count", 1)

    class Died(BaseException):
        """It was killed here."""

    def die(*args: object) -> None:
        raise Died

    for step in ("_deliver", "_tell"):
        handle = add.using(queue="q").delay(1, 2)
        handle.move("report.x")
        with monkeypatch.context() as patched:
            patched.setattr(Carrier, step, die)
            with pytest.raises(Died):
                carry()
        carry()
        assert _run_all(places) == [handle.jid]
    for _ in range(2):
        handle = add.using(queue="q").delay(1, 2)
        handle.move("report.x")
        with monkeypatch.context() as patched:
            # After the target's call, before the source hears of it: twice.
            patched.setattr(type(places[DEFAULT]), "crossing_delivered", die)
            for _ in range(2):
                with pytest.raises(Died):
                    carry()
        assert _run_all(places) == [handle.jid]
        carry()
        assert _run_all(places) == []
        assert places[DEFAULT].crossing_waiting() == []


def _run_all(places: Places) -> list[str]:
    """Run what waits there, and a job behind it, so that their records are gone."""
    done = []
    for _ in range(2):
        for found in places[REPORTS].pop("report.x", "w", 10):
            found.complete()
            done.append(found.jid)
        places[REPORTS].put("", "report.x", "last", "k", "[]")
    [last] = places[REPORTS].pop("report.x", "w", 10)
    last.complete()
    return [jid for jid in done if jid != "last"]


def test_operators_see_what_waits(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    add.using(queue="q").delay(1, 2).move("report.x")
    assert "for namespace" in run("qless_status", "--alias", "default/")
    [waits] = data("qless_status", "--alias", "default/")["crossing"]
    assert (waits["target"], waits["entries"]) == (REPORTS, 1)
    words = f"crossing 1 call waiting for namespace {REPORTS}, the oldest for"
    assert words in doctor_words("--alias", "default/")
    monkeypatch.setattr("django_qless.core.commands.crossing.LATE", -1)
    assert "check that its server answers" in doctor_words("--alias", "default/")
    families = {each.name: each for each in QlessCollector(DEFAULT).collect()}
    [sample] = families["qless_crossing_entries"].samples
    assert sample.labels == {"alias": DEFAULT, "target": REPORTS}
    assert sample.value == 1


def test_carry_all_delivers_in_every_namespace(places: Places) -> None:
    one = add.using(queue="q").delay(1, 2)
    two = add.using(queue="mail").delay(1, 2)
    one.move("report.x")
    two.move("q")
    assert carry_all("default") == 2
    assert (one.refresh().alias, two.refresh().alias) == (REPORTS, DEFAULT)
    for name in (DEFAULT, MAIL, REPORTS):
        assert places[name].audit().violations == []


def test_a_refused_job_comes_back(
    places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    handle = add.using(queue="q").delay(1, 2)
    handle.move("report.x")
    # (A clash of ids, which nothing that we draw can have.)
    places[REPORTS].put("", "report.x", "other", "k", "[]")
    places.there.client().hset("ql-r:j:" + handle.jid, mapping=_of_entity(places))
    carry()
    assert "refused by namespace" in caplog.text
    assert places[DEFAULT].get(handle.jid) is not None


def _of_entity(places: Places) -> dict[str, str]:
    record = places.there.client().hgetall("ql-r:j:other")
    return {**record, "entity": "e", "rare": "1"}


def test_a_server_that_is_lost_raises_for_its_own_namespace(places: Places) -> None:
    places.there.kill()
    with pytest.raises(ConnectionLost):
        carry(REPORTS)
