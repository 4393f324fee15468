"""Jobs that wait when the routes change: `qless_reshard` moves them to where they belong."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_qless import job, workflow
from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.core import Client, Put, new_jid
from django_qless.core.request import command
from django_qless.management.commands import qless_reshard
from django_qless.operations import crossing, resharding
from django_qless.operations.audit import audit_namespace
from django_qless.operations.resharding import Resharding
from tests.jobs_app.jobs import add
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS, Places

pytestmark = pytest.mark.usefixtures("places")

ran: list[int] = []


@job("mail")
def note(number: int) -> None:
    ran.append(number)


@job("events")
def happen(number: int) -> None: ...


@job("mail", entity=True)
def visits(shop: str, payloads: list[Any]) -> None: ...


@contextmanager
def before(places: Places) -> Iterator[None]:
    """The setting of before: all queues are in one namespace."""
    with override_settings(QLESS={"default": {"LOCATION": places.here.url}}):
        yield


def reshard(**options: Any) -> list[dict[str, Any]]:
    """Return what the command prints as JSON."""
    out = io.StringIO()
    try:
        call_command("qless_reshard", json=True, stdout=out, **options)
    finally:
        connections.close_all()
    found: list[dict[str, Any]] = json.loads(out.getvalue())
    return found


def sound(places: Places) -> None:
    for name in NAMES:
        assert audit_namespace(places[name], 250).violations == []


def test_jobs_go_to_the_namespace_that_has_their_queue_now(places: Places) -> None:
    with before(places):
        waiting = [note.delay(n) for n in range(250)]
        later = note.using(delay=3600).delay(-1)
        other = add.delay(1)
        report = add.using(queue="report.x").delay(2)
    new = note.delay(250)
    found = {(each["namespace"], each["queue"]): each for each in reshard()}
    assert found.keys() == {(DEFAULT, "mail"), (DEFAULT, "report.x")}
    assert found[DEFAULT, "mail"]["moved"] == {MAIL: 251}
    assert found[DEFAULT, "report.x"]["moved"] == {REPORTS: 1}
    assert places.waiting("mail") == [0, 251, 0]
    assert places.waiting("default") == [1, 0, 0]
    assert (report.refresh().alias, other.refresh().alias) == (REPORTS, DEFAULT)
    assert (later.refresh().state, later.refresh().alias) == ("scheduled", MAIL)
    assert [each.name for each in places[DEFAULT].queues()] == ["default"]
    sound(places)
    # They run in the order in which they were put, before what came later.
    taken = [each.jid for each in places[MAIL].peek("mail", 250)]
    assert taken == [each.jid for each in waiting]
    assert new.refresh().state == "waiting"
    assert reshard() == []


def test_failed_jobs_stay_failed_in_the_order_of_their_failures(places: Places) -> None:
    with before(places):
        handles = [note.delay(1) for _ in range(3)]
        for popped in places[DEFAULT].pop("mail", "w", 3):
            popped.fail("ValueError", "broken")
    assert reshard()[0]["moved"] == {MAIL: 3}
    assert [each.refresh().state for each in handles] == ["failed"] * 3
    listed = places[MAIL].failed_jobs("ValueError").jids
    assert listed == [each.jid for each in reversed(handles)]
    assert places[DEFAULT].failed() == {}
    handles[0].retry()
    assert handles[0].refresh().alias == MAIL
    sound(places)


def test_a_paused_queue_stays_paused_and_limited(places: Places) -> None:
    with before(places):
        note.delay(1)
        places[DEFAULT].pause("mail", "the provider is down", by="eve")
        places[DEFAULT].config_set("mail-rate", "5/m")
        places[DEFAULT].config_set("mail-weight", 3)
    places[MAIL].config_set("mail-weight", 2)
    reshard()
    counts = places[MAIL].queue_counts("mail")
    assert counts.paused
    assert counts.pause is not None
    assert (counts.pause.reason, counts.pause.by) == ("the provider is down", "eve")
    assert places[MAIL].config_get("mail-rate") == "5/m"
    assert places[MAIL].config_get("mail-weight") == "2"


def test_what_must_end_where_it_is_is_named_with_the_remedy(places: Places) -> None:
    with before(places):
        first = note.delay(1)
        note.using(after=first).delay(2)
        flow = workflow("two")
        flow.add(note.args(3))
        flow.add(note.args(4))
        flow.enqueue()
        visits.push("shop 1", {"n": 1})
        note.recur(5, every=3600, key="k")
        note.using(priority=9).delay(6)
        [running] = places[DEFAULT].pop("mail", "w", 1)
        moves = note.delay(7)
    out = io.StringIO()
    with pytest.raises(CommandError, match="where they were: mail of default"):
        call_command("qless_reshard", stdout=out)
    lines = {line.strip() for line in out.getvalue().splitlines()}
    stay = "left: each"
    assert lines == {
        "queue mail of default:",
        # (Also the first one of the schedule.)
        "2 jobs moved to default/mail",
        f"1 job {stay} has dependents: move it when they are gone",
        f"2 jobs {stay} belongs to a workflow, which stays: let it run, or cancel it",
        f"1 job {stay} belongs to an entity, which stays: push its payloads there",
        f"1 job {stay} is running: move it when its run has ended",
        f"1 job {stay} waits for other jobs: move it when it is ready",
        f"1 job {stay} is a recurring job that no code declares: make it again with "
        ".recur()",
        "To let them end where they are: manage.py qless_worker --alias default/ mail "
        "--burst",
    }
    assert moves.refresh().alias == MAIL
    sound(places)
    # What is said of them is done.
    running.complete()


def test_a_dry_run_changes_nothing(places: Places) -> None:
    with before(places):
        note.delay(1)
        note.using(delay=60).delay(2)
    [found] = reshard(dry_run=True)
    assert (found["namespace"], found["queue"]) == (DEFAULT, "mail")
    assert (found["targets"], found["moved"]) == ([MAIL], {})
    assert (found["counts"]["waiting"], found["counts"]["scheduled"]) == (1, 1)
    assert places.waiting("mail") == [1, 0, 0]
    out = io.StringIO()
    call_command("qless_reshard", "--dry-run", stdout=out)
    head, row = out.getvalue().splitlines()
    assert head.split()[:5] == ["queue", "is", "in", "belongs", "to"]
    assert row.split() == ["mail", DEFAULT, MAIL, "1", "1"]


def test_one_queue_alone_and_one_namespace_alone(places: Places) -> None:
    with before(places):
        note.delay(1)
        add.using(queue="report.x").delay(2)
    assert [each["queue"] for each in reshard(queue="report.x")] == ["report.x"]
    assert reshard(alias="default/mail") == []
    assert [each["queue"] for each in reshard(alias="default/")] == ["mail"]
    out = io.StringIO()
    call_command("qless_reshard", stdout=out)
    assert out.getvalue() == "all queues are where they are routed\n"


def test_a_target_that_is_away_loses_nothing_and_keeps_back_no_other(
    places: Places,
) -> None:
    with before(places):
        lost = [add.using(queue="report.x").delay(n) for n in range(5)]
        mail = note.delay(1)
    places.there.kill()
    with pytest.raises(CommandError, match=r"report\.x of default"):
        call_command("qless_reshard", stdout=(out := io.StringIO()))
    assert "stopped: " in out.getvalue()
    assert mail.refresh().alias == MAIL
    assert places[DEFAULT].queue_counts("report.x").waiting == 5
    # It goes away when some are on their way.
    jids = [each.jid for each in lost[:2]]
    places[DEFAULT].send_each(REPORTS, jids, "report.x", None)
    places.there.start()
    reshard()
    assert [each.refresh().alias for each in lost] == [REPORTS] * 5
    assert [each.jid for each in places[REPORTS].peek("report.x", 9)] == [
        each.jid for each in lost
    ]


class Died(BaseException):
    """It was killed here."""


def test_killed_at_each_step_it_goes_on_where_it_was(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resharding, "CHUNK", 5)
    monkeypatch.setattr(resharding, "MOST_ENTRIES", 0)
    for name in NAMES:
        places[name].config_set("jobs-history-count", 1)
    with before(places):
        handles = [note.using(queue="report.x").delay(n) for n in range(100)]
    steps = [
        (crossing.Carrier, "_deliver"),
        (crossing.Carrier, "_tell"),
        *((Client, call) for call in CALLS),
    ]
    for owner, step in steps:
        for when in ("before", "after"):
            with monkeypatch.context() as patched:
                patched.setattr(owner, step, dying(getattr(owner, step), when))
                with pytest.raises(Died):
                    reshard(queue="report.x")
    reshard(queue="report.x")
    assert places[DEFAULT].crossing_waiting() == []
    taken = [each.jid for each in places[REPORTS].peek("report.x", 100)]
    assert taken == [each.jid for each in handles]
    sound(places)


CALLS = ("send_each", "crossing_due", "crossing_read", "crossing_delivered")


def dying(step: Any, when: str) -> Any:
    """Return a step at which the process dies, before or after it is done."""
    if isinstance(step, command):

        class Dying(command):  # type: ignore[type-arg]
            def __get__(self, instance: Any, owner: type) -> Any:
                real = step.__get__(instance, owner)
                return real if instance is None else deadly(real, when)

        return Dying(step.build)
    return lambda *args: deadly(step, when)(*args)


def deadly(step: Any, when: str) -> Any:
    def die(*args: Any, **options: Any) -> None:
        if when == "after":
            step(*args, **options)
        raise Died

    return die


def partitions(places: Places, number: int) -> Any:
    """Use so many partitions of the queue `events`."""
    queues = {"events": {"partitions": number}}
    return override_settings(
        QLESS={"default": {"LOCATION": places.here.url, "QUEUES": queues}}
    )


def test_what_must_end_in_a_partition_is_named(places: Places) -> None:
    keys = [f"k{n}" for n in range(40)]

    def homes() -> dict[str, str]:
        return {
            key: routing.job_namespace("default", "events", key=key) for key in keys
        }

    with partitions(places, 2):
        before = homes()
        for key, home in before.items():
            first = Put(f"first {key}", "events", "note", "[]", limit_key=key)
            then = first._replace(jid=f"then {key}", depends=[first.jid])
            places[home].put_many("", [first, then])
        for name in {*before.values()}:
            places[name].settle("w", [], 100, ["events"])
    with partitions(places, 8):
        after, out = homes(), io.StringIO()
        with pytest.raises(CommandError, match="left where they were: events of"):
            call_command("qless_reshard", json=True, stdout=out)
        found = {each["namespace"]: each["stay"] for each in json.loads(out.getvalue())}
    assert any(before[key] == after[key] for key in keys)
    for name in {*before.values()}:
        left = sum(before[key] == name != after[key] for key in keys)
        assert left
        assert found[name] == {
            "is running: move it when its run has ended": left,
            "waits for other jobs: move it when it is ready": left,
        }
    assert [stay for name, stay in found.items() if name not in before.values()] == [
        {}
    ] * (len(found) - 2)


def test_recurring_jobs_of_other_partitions_are_named(places: Places) -> None:
    keys = [f"k{n}" for n in range(20)]
    with partitions(places, 2):
        homes = {
            (handle := happen.recur(1, every=3600, offset=3600, key=key)).id: (
                handle.alias
            )
            for key in keys
        }
    with partitions(places, 8):
        stay: dict[str, Counter[str]] = {
            each.place.namespace: each.stay for each in Resharding("default").run()
        }
        for name in {*homes.values()}:
            left = sum(
                home == name
                and routing.schedule_namespace("default", "events", schedule) != name
                for schedule, home in homes.items()
            )
            assert left
            assert [*stay[name].values()] == [left]
            assert "a recurring job that no code declares" in next(iter(stay[name]))


def test_a_target_that_goes_away_meanwhile_is_named(places: Places) -> None:
    with before(places):
        add.using(queue="report.x").delay(1)
    [done] = Resharding("default", on_progress=lambda _: places.there.kill()).run()
    assert done.moved == {REPORTS: 1}
    assert done.problem.startswith(
        f"namespace {REPORTS!r} does not answer: 1 entries for it wait in the outbox of "
        f"{DEFAULT!r}"
    )
    assert places[DEFAULT].crossing_waiting()[0][:2] == (REPORTS, 1)


def test_what_a_worker_delivers_meanwhile_is_delivered(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    with before(places):
        handle = note.delay(1)
    carry = crossing.Carrier.carry

    def carry_for_another(self: Any, targets: Any) -> int:
        carry(crossing.Carrier(DEFAULT), targets)
        return 0

    monkeypatch.setattr(crossing.Carrier, "carry", carry_for_another)
    [done] = Resharding("default").run()
    assert (done.moved, done.problem) == ({MAIL: 1}, "")
    assert handle.refresh().alias == MAIL


def test_a_queue_that_is_used_again_meanwhile_stays_known(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    with before(places):
        note.delay(1)
    rest = resharding._Move._note_the_rest

    def enqueue(self: Any) -> None:
        rest(self)
        with before(places):
            note.delay(2)

    monkeypatch.setattr(resharding._Move, "_note_the_rest", enqueue)
    [done] = Resharding("default").run()
    assert (done.moved, done.problem) == ({MAIL: 1}, "")
    assert places.waiting("mail") == [1, 1, 0]
    assert [each.name for each in places[DEFAULT].queues()] == ["mail"]


def test_four_partitions_become_eight(places: Places) -> None:
    def setting(number: int) -> dict[str, Any]:
        return {
            "default": {
                "LOCATION": places.here.url,
                "QUEUES": {"events": {"partitions": number}},
            }
        }

    def put(number: int, first: int, last: int) -> None:
        """Put jobs as producers do, with keys and without."""
        for n in range(first, last):
            key = f"k{n % 20}" if n % 2 else ""
            jid = new_jid()
            home = routing.job_namespace("default", "events", key=key, jid=jid)
            one = Put(jid, "events", "note", "[]", limit_key=key or None)
            places[home].put_many("", [one])

    with override_settings(QLESS=setting(4)):
        put(4, 0, 200)
    with override_settings(QLESS=setting(8)):
        # (So many that each of the eight has some.)
        put(8, 200, 400)
        found = reshard()
        assert len(found) == 8
        moved = sum(sum(each["moved"].values()) for each in found)
        assert 0 < moved < 200
        seen = []
        for name in routing.partitions_of("default", "events"):
            for each in places[name].peek("events", 250):
                key = (each.limits or {}).get("key") or ""
                home = routing.job_namespace("default", "events", jid=each.jid, key=key)
                assert home == name
                seen.append(each.jid)
            assert audit_namespace(places[name], 250).violations == []
        assert len(seen) == len(set(seen)) == 400
        assert sum(sum(each["moved"].values()) for each in reshard()) == 0


def test_its_progress_is_told_now_and_then(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qless_reshard, "EVERY", 0.0)
    with before(places):
        note.enqueue_many([note.args(n) for n in range(3)])
    call_command("qless_reshard", stdout=(out := io.StringIO()))
    first, *rest = out.getvalue().splitlines()
    assert first == "queue mail of default: 3 jobs moved so far"
    assert rest[-2:] == [
        "queue mail of default:",
        "  3 jobs moved to default/mail",
    ]


def test_it_can_be_stopped_and_run_again(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    with before(places):
        note.enqueue_many([note.args(n) for n in range(3)])

    def stop(self: object, progress: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(qless_reshard.Command, "_show_progress", stop)
        with pytest.raises(
            CommandError, match="stopped; nothing is lost: run it again to"
        ):
            call_command("qless_reshard")
    reshard()
    assert places.waiting("mail") == [0, 3, 0]
    sound(places)


def test_a_queue_that_is_split_now_belongs_to_its_partitions(places: Places) -> None:
    with before(places):
        add.using(queue="events").delay(1)
    setting = {"LOCATION": places.here.url, "QUEUES": {"events": {"partitions": 4}}}
    with override_settings(QLESS={"default": setting}):
        call_command("qless_reshard", dry_run=True, stdout=(out := io.StringIO()))
        connections.close_all()
    _head, row = out.getvalue().splitlines()
    assert re.split(r"  +", row)[:4] == [
        *("events", "default", "one of 4 partitions"),
        "1",
    ]
