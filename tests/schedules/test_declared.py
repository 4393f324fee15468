"""Declared schedules on the server: applied once; operators win; versions side by side."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from dataclasses import replace
from threading import Barrier, Thread

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings

from django_qless import recurring
from django_qless.conf.connections import connections
from django_qless.conf.declaration_mark import (
    DEPLOYMENT_SECONDS,
    MOST_EARLIER,
    Mark,
    read_mark,
    write_mark,
)
from django_qless.core.exceptions import ConnectionLost, ScheduleNotFound
from django_qless.exceptions import InvalidOption
from django_qless.job_types.registry import registry
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.schedules.declared import (
    NO_CHANGES,
    _apply,
    declared_on,
    mark_name,
    project_name,
    sync_at_start,
    sync_schedules,
)
from django_qless.worker.execution import Execution
from django_qless.worker.ticker import serve
from tests.schedules.declaring import declaring


def run(*words: str) -> str:
    """Return what a command prints."""
    output = io.StringIO()
    call_command(*words, stdout=output)
    return output.getvalue()


ECHO = "tests.jobs_app.jobs.echo"
WHO = "tests.jobs_app.jobs.whoami"


def mark_of(client) -> Mark:
    return Mark.read(read_mark(client, mark_name("default")))


def change_mark(client, **values) -> None:
    after = mark_of(client)._replace(**values).text()
    write_mark(client, mark_name("default"), after)


def keyspace(client) -> dict[bytes, object]:
    """Return all that is on the server, but the clock and the replies."""
    redis = client.redis
    return {
        key: redis.dump(key)
        for key in redis.scan_iter()
        if not key.startswith((b"ql:reply:", b"ql:meta"))
    }


def test_what_is_declared_is_applied_once(qless) -> None:
    with declaring() as declare:
        declare(ECHO, every=60, missed="all", priority=7, tags=["x"], queue="q")
        declare(WHO, cron="0 6 * * *", timezone="Europe/Berlin")
        done = sync_schedules()
        assert sorted(done.added) == [ECHO, WHO]
        assert done._replace(added=[]) == NO_CHANGES
        before = keyspace(qless)
        assert sync_schedules() == NO_CHANGES
        assert sync_schedules(anyway=True) == NO_CHANGES
        assert keyspace(qless) == before
    interval, cron = recurring[ECHO], recurring[WHO]
    assert (interval.every, interval.missed, interval.words) == (
        60,
        "all",
        "every minute",
    )
    assert (interval.queue, interval.priority, interval.tags) == ("q", 7, ["x"])
    assert (interval.name, interval.owner, interval.is_declared) == (ECHO, "code", True)
    assert (interval.state, interval.retries, interval.data) == ("active", 3, '{"v":1}')
    assert cron.words == "at 06:00, Europe/Berlin"
    assert (cron.every, cron.timezone) == (None, "Europe/Berlin")


def test_nothing_declared_writes_nothing(qless) -> None:
    assert sync_schedules() == NO_CHANGES
    assert keyspace(qless) == {}


def test_each_in_the_alias_of_its_job(qless) -> None:
    with declaring() as declare:
        declare(ECHO, every=60, alias="other")
        assert sync_schedules() == NO_CHANGES
        assert sync_schedules("other").added == [ECHO]
    assert [handle.id for handle in recurring] == []
    assert [handle.id for handle in recurring.using_alias("other")] == [ECHO]


def test_a_declared_job_runs(qless, work) -> None:
    with declaring() as declare:
        declare(ECHO, every=3600)
        sync_schedules()
        assert work() == 1
        assert recurring[ECHO].count == 1
        assert work() == 0


@pytest.mark.parametrize(
    "given", [{}, {"unique": True}, {"unique": "one"}, {"debounce": 5}]
)
@pytest.mark.parametrize("kind", ["Gnomes", "whoami"])
def test_jobs_without_arguments_run_whatever_their_options(qless, work, kind, given):
    name = f"tests.jobs_app.jobs.{kind}"
    with declaring() as declare:
        declare(name, every=3600, queue="recurring", **given)
        sync_schedules()
        serve(qless, "w")
        [tick] = qless.settle("w", [], 1, ["recurring"]).jobs
        if given:
            assert tick.klass == f"{name}:tick"
            settlement = Execution(DjangoEnvironment(), qless, "w").perform(tick)
            assert settlement.args[0] == "1"  # the number that was enqueued
            states = ("waiting", "scheduled")
            jids = [jid for s in states for jid in qless.jobs(s, "recurring")]
            [job] = qless.multiget(jids)
            assert bool(job.unique) is True
            data = job.data
        else:
            data = tick.data
        assert data == ("{}" if kind == "Gnomes" else '{"v":1}')


def test_a_schedule_that_cannot_be_is_left_out(qless, caplog) -> None:
    with declaring() as declare:
        declare(WHO, every=60)
        job_type = declare(ECHO, every=60)
        # A function that is decorated later, when what it needs is known.
        needs = replace(job_type, function=lambda a: a)
        registry._types[ECHO] = needs
        assert sync_schedules().added == [WHO]
        assert "a schedule is left out: " in caplog.text
        assert "<lambda>" in caplog.text


def test_a_server_that_goes_away_meanwhile_ends_the_start(qless, server) -> None:
    nowhere = {"LOCATION": "unix:///nowhere.sock", "PATIENCE": 0.01}
    with declaring() as declare:
        declare(ECHO, every=60)
        wanted = declared_on("default")
        with (
            override_settings(QLESS={"default": nowhere}),
            pytest.raises(ConnectionLost),
        ):
            _apply("default", wanted, Mark())


def test_a_changed_interval_keeps_the_rhythm_and_the_count(qless, work) -> None:
    with declaring() as declare:
        declare(ECHO, every=3600)
        sync_schedules()
        work()
        before = recurring[ECHO]
        recurring[ECHO].pause()
        declare(ECHO, every=7200, queue="elsewhere")
        done = sync_schedules()
        assert done == NO_CHANGES._replace(changed=[ECHO])
        after = recurring[ECHO]
        # Nor does it forget that it is paused.
        assert (after.count, after.paused, after.queue) == (1, True, "elsewhere")
        after.resume()
        after = recurring[ECHO]
        assert after.next - before.last == 2 * (before.next - before.last)


def test_what_is_gone_from_the_code_goes_and_its_jobs_stay(qless) -> None:
    with declaring() as declare:
        declare(ECHO, every=3600)
        declare(WHO, every=3600)
        sync_schedules()
        jid = recurring[ECHO].run().jid
    with declaring() as declare:
        declare(WHO, every=3600)
        assert sync_schedules() == NO_CHANGES._replace(removed=[ECHO])
    assert recurring.get(ECHO) is None
    assert qless.get(jid).state == "waiting"
    assert sync_schedules() == NO_CHANGES._replace(removed=[WHO])
    assert list(recurring) == []


class TestProjects:
    """Whose a declared schedule is."""

    def test_other_settings_of_a_project_are_the_same_project(
        self, qless, settings, monkeypatch
    ) -> None:
        with declaring() as declare:
            declare(ECHO, every=60)
            sync_schedules()
            monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "settings_prod")
            declare(ECHO, every=90)
            assert sync_schedules() == NO_CHANGES._replace(changed=[ECHO])
            del settings.ROOT_URLCONF
            assert project_name() == "settings_prod"

    def test_a_name_for_it_can_be_set(self, qless, server) -> None:
        location = {"LOCATION": server.url}
        with declaring() as declare:
            declare(ECHO, every=60)
            with override_settings(QLESS={"default": {**location, "PROJECT": "shop"}}):
                assert sync_schedules().added == [ECHO]
            (schedule,) = qless.schedule_declared()
            assert schedule.owner == "code:shop"

    def test_what_another_one_declared_is_left_and_named(
        self, qless, server, caplog
    ) -> None:
        with declaring() as declare:
            declare(ECHO, every=60)
            settings = {"LOCATION": server.url, "PROJECT": "blog"}
            with override_settings(QLESS={"default": settings}):
                sync_schedules()
            declare(ECHO, every=90)
            DjangoEnvironment().on_start()
            assert 'set PROJECT to "blog" in QLESS' in caplog.text
            done = sync_schedules(anyway=True)
            assert done == NO_CHANGES._replace(others={ECHO: "blog"})
            text = run("qless_recurring", "sync")
            assert f"recurring job {ECHO} is left as the project 'blog'" in text
            assert "nothing to do" not in text
        assert recurring[ECHO].every == 60


class TestARenamedJob:
    """`aliases` has the names that a job had: all that was kept under them goes on."""

    NEW = "tests.jobs_app.jobs.moved"

    @pytest.fixture
    def renamed(self, qless):
        """A schedule under the old name; what declares it under the new one."""
        with declaring() as declare:

            def begin(**given):
                declare(ECHO, **given)
                sync_schedules()

                def rename(**given):
                    declare.rename(ECHO, self.NEW, **given)

                return rename

            yield begin

    @pytest.mark.parametrize("given", [{"every": 604800}, {"cron": "0 6 * * mon"}])
    def test_it_keeps_its_rhythm(self, qless, work, renamed, given) -> None:
        rename = renamed(**given)
        serve(qless, "w")
        work()
        before = recurring[ECHO]
        rename(**given)
        done = sync_schedules()
        assert (done.added, done.changed, done.removed) == ([], [self.NEW], [])
        assert [each.id for each in recurring] == [self.NEW]
        after = recurring[self.NEW]
        assert (after.next, after.count) == (before.next, before.count)
        assert after.name == self.NEW
        assert work() == 0
        assert recurring[self.NEW].run().refresh().name == self.NEW

    @pytest.mark.parametrize("given", [{"every": 604800}, {"cron": "0 6 * * mon"}])
    def test_it_keeps_what_an_operator_has_done(self, qless, renamed, given) -> None:
        rename = renamed(**given)
        recurring[ECHO].update(priority=7)
        recurring[ECHO].pause()
        rename(**given)
        assert sync_schedules().kept == [self.NEW]
        after = recurring[self.NEW]
        assert (after.priority, after.state) == (7, "paused, edited")
        assert after.name == self.NEW
        after.resume()
        assert sync_schedules(anyway=True) == NO_CHANGES._replace(kept=[self.NEW])

    def test_one_that_an_operator_removed_stays_removed(self, qless, renamed) -> None:
        rename = renamed(every=60)
        recurring[ECHO].remove()
        rename(every=60)
        assert sync_schedules().kept == [self.NEW]
        assert sync_schedules(anyway=True).kept == [self.NEW]
        assert list(recurring) == []


def test_dynamic_schedules_are_left_alone(qless) -> None:
    qless.schedule_set(ECHO, "mine", "klass", "{}", every=99)
    qless.recur("mine", "old-client", "klass", "{}", 60)
    with declaring() as declare:
        declare(ECHO, every=3600)
        assert sync_schedules() == NO_CHANGES._replace(by_hand=[ECHO])
    sync_schedules()
    assert sorted(handle.id for handle in recurring) == ["old-client", ECHO]
    assert recurring[ECHO].every == 99
    assert recurring[ECHO].owner == "hand"


def test_those_of_another_project_are_left_alone(qless) -> None:
    with declaring() as declare, override_settings(ROOT_URLCONF="billing.urls"):
        declare(ECHO, every=60)
        sync_schedules()
    with declaring() as declare:
        declare(WHO, every=60)
        assert sync_schedules() == NO_CHANGES._replace(added=[WHO])
    sync_schedules()
    assert [handle.id for handle in recurring] == [ECHO]


def test_an_operator_who_edits_wins_until_it_is_reset(qless) -> None:
    with declaring() as declare:
        declare(ECHO, every=3600, queue="q")
        sync_schedules()
        recurring[ECHO].update(every=1800, priority=3)
        edited = recurring[ECHO]
        assert (edited.edited, edited.state) == (True, "active, edited")
        declare(ECHO, every=60, queue="q")
        assert sync_schedules() == NO_CHANGES._replace(kept=[ECHO])
        assert sync_schedules(anyway=True) == NO_CHANGES._replace(kept=[ECHO])
        assert recurring[ECHO].every == 1800
        edited.pause()
        edited.reset()
        again = recurring[ECHO]
        assert (again.every, again.priority, again.state) == (60, 0, "active")
        assert sync_schedules(anyway=True) == NO_CHANGES


def test_an_operator_who_removes_wins_until_it_is_reset(qless) -> None:
    with declaring() as declare:
        declare(ECHO, every=3600)
        sync_schedules()
        recurring[ECHO].remove()
        assert sync_schedules() == NO_CHANGES
        declare(WHO, every=60)
        assert sync_schedules() == NO_CHANGES._replace(added=[WHO], kept=[ECHO])
        assert recurring.get(ECHO) is None
        asyncio.run(reset_later(ECHO))
        assert recurring[ECHO].every == 3600
        with pytest.raises(InvalidOption, match="declares no recurring job 'nobody'"):
            asyncio.run(reset_later("nobody"))


async def reset_later(schedule: str) -> None:
    await recurring.handle(schedule).areset()
    await connections.aclose()


def test_old_code_beside_new_code_changes_nothing_back(qless) -> None:
    """A deployment is under way: workers of both versions begin, in any order."""
    with declaring() as declare:
        declare(ECHO, every=60)
        sync_schedules()
        declare(ECHO, every=90)
        assert sync_schedules().changed == [ECHO]
        declare(ECHO, every=60)
        for _ in range(3):
            done = sync_schedules()
            assert 0 < done.waits <= DEPLOYMENT_SECONDS
            assert done._replace(waits=0.0) == NO_CHANGES
        assert recurring[ECHO].every == 90
        declare(ECHO, every=90)
        assert sync_schedules() == NO_CHANGES


def test_a_rollback_is_applied_when_the_deployment_has_settled(qless) -> None:
    with declaring() as declare:
        declare(ECHO, every=60)
        sync_schedules()
        declare(ECHO, every=90)
        sync_schedules()
        declare(ECHO, every=60)
        (replaced,) = mark_of(qless).earlier.items()
        change_mark(qless, earlier={replaced[0]: time.time() - DEPLOYMENT_SECONDS})
        assert sync_schedules().changed == [ECHO]
        assert recurring[ECHO].every == 60


def test_a_rollback_is_applied_at_once_by_command(qless) -> None:
    with declaring() as declare:
        declare(ECHO, every=60)
        sync_schedules()
        declare(ECHO, every=90)
        sync_schedules()
        declare(ECHO, every=60)
        assert sync_schedules(anyway=True).changed == [ECHO]
        # Now it is the other version that is late.
        declare(ECHO, every=90)
        assert sync_schedules().waits > 0


def test_the_servers_clock_counts(qless, monkeypatch) -> None:
    with declaring() as declare:
        declare(ECHO, every=60)
        sync_schedules()
        # The clock of the machine that deploys is an hour fast.
        fast = time.time() + 3600
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: fast)
            declare(ECHO, every=90)
            sync_schedules()
        declare(ECHO, every=60)
        assert 0 < sync_schedules().waits <= DEPLOYMENT_SECONDS


@pytest.mark.parametrize("name", ["add", "aadd"])
def test_a_worker_that_had_to_wait_looks_again_between_its_jobs(
    qless, each_way, monkeypatch, name: str
) -> None:
    from django_qless.runtime import startup
    from django_qless.worker.execution import Execution
    from tests.jobs_app import jobs

    with declaring() as declare:
        declare(ECHO, every=60)
        sync_schedules()
        declare(ECHO, every=90)
        sync_schedules()
        declare(ECHO, every=60)
        world = DjangoEnvironment()
        world.on_start()
        assert recurring[ECHO].every == 90
        (digest,) = mark_of(qless).earlier
        change_mark(qless, earlier={digest: time.time() - DEPLOYMENT_SECONDS})
        later = time.monotonic() + DEPLOYMENT_SECONDS + 1
        monkeypatch.setattr(startup, "monotonic", lambda: later)
        getattr(jobs, name).using(queue="now").delay(1, 2)
        (reserved,) = qless.settle("w", [], 1, ["now"]).jobs
        each_way(Execution(world, qless, "w"), reserved)
        assert recurring[ECHO].every == 60


def test_a_job_has_nothing_to_do_with_what_cannot_be_applied(
    qless, each_way, monkeypatch, caplog
) -> None:
    from django_qless.runtime import startup
    from django_qless.worker.execution import Execution
    from tests.jobs_app.jobs import add

    with declaring() as declare:
        for seconds in (60, 90, 60):
            declare(ECHO, every=seconds)
            world = DjangoEnvironment()
            world.on_start()
        write_mark(qless, mark_name("default"), "[]")
        later = time.monotonic() + DEPLOYMENT_SECONDS + 1
        monkeypatch.setattr(startup, "monotonic", lambda: later)
        for expected in ("not applied yet", ""):
            caplog.clear()
            handle = add.using(queue="now").delay(1)
            (reserved,) = qless.settle("w", [], 1, ["now"]).jobs
            settlement = each_way(Execution(world, qless, "w"), reserved)
            qless.settle("w", [settlement], 0, ["now"])
            assert handle.result() == 1
            assert expected in caplog.text
            assert bool(caplog.text) == bool(expected)  # It waits before the next try.


def test_one_that_the_server_refuses_keeps_nothing_from_working(
    qless, monkeypatch, caplog
) -> None:
    from django_qless.core import BadArgument
    from django_qless.runtime import startup

    usual = qless.schedule_set

    def refusing(which, *args, **given):
        if which == ECHO:
            raise BadArgument("there is no room for it")
        return usual(which, *args, **given)

    with declaring() as declare:
        declare(ECHO, every=60)
        declare(WHO, every=60)
        world = DjangoEnvironment()
        with monkeypatch.context() as full:
            full.setattr(connections["default"], "schedule_set", refusing)
            world.on_start()
            assert f"{ECHO} is not applied: there is no room for it" in caplog.text
            assert recurring[WHO].every == 60
            assert list(sync_schedules().failed) == [ECHO]
        # It is tried again, by this worker and by all others.
        assert world._startup.schedules_due is not None
        later = time.monotonic() + startup.AGAIN + 1
        monkeypatch.setattr(startup, "monotonic", lambda: later)
        world._startup.sync_schedules()
        assert recurring[ECHO].every == 60
        assert sync_schedules() == NO_CHANGES


def test_a_worker_begins_whatever_is_wrong_with_the_mark(qless, caplog) -> None:
    write_mark(qless, mark_name("default"), "[broken")
    with declaring() as declare:
        declare(ECHO, every=60)
        DjangoEnvironment().on_start()
    assert "schedules" in caplog.text or "recurring" in caplog.text


def test_the_past_is_not_kept_for_ever(qless) -> None:
    with declaring() as declare:
        for seconds in range(60, 60 + MOST_EARLIER + 5):
            declare(ECHO, every=seconds)
            sync_schedules()
    assert len(mark_of(qless).earlier) == MOST_EARLIER


def test_many_processes_that_begin_together(qless) -> None:
    with declaring() as declare:
        for name in (ECHO, WHO):
            declare(name, every=3600)
        start, outcomes = Barrier(8), []

        def begin() -> None:
            start.wait()
            outcomes.append(sync_schedules())

        threads = [Thread(target=begin) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        added = [name for done in outcomes for name in done.added]
        assert sorted(added) == [ECHO, WHO]
        assert sync_schedules() == NO_CHANGES


def test_a_start_that_was_cut_short_is_made_good(qless) -> None:
    with declaring() as declare:
        declare(ECHO, every=60)
        sync_schedules()
        # As if the process had died before it could leave its mark.
        write_mark(qless, mark_name("default"), "")
        declare(WHO, every=60)
        assert sync_schedules() == NO_CHANGES._replace(added=[WHO])
    assert sorted(sync_schedules().removed) == [ECHO, WHO]


def test_a_worker_applies_it_at_its_start_and_says_so(qless, caplog) -> None:
    with declaring() as declare:
        declare(ECHO, every=60)
        with caplog.at_level("INFO", logger="django_qless.worker"):
            DjangoEnvironment().on_start()
        assert f"recurring job added: {ECHO}" in caplog.messages
        declare(ECHO, every=90)
        assert sync_at_start("default") == 0
        declare(ECHO, every=60)
        assert 0 < sync_at_start("default") <= DEPLOYMENT_SECONDS
        assert "qless_recurring sync" in caplog.messages[-1]
    assert recurring[ECHO].every == 90


def test_a_changed_default_time_zone_is_a_change(qless, settings) -> None:
    with declaring() as declare:
        declare(ECHO, cron="0 6 * * *")
        settings.TIME_ZONE = "Europe/Berlin"
        sync_schedules()
        settings.TIME_ZONE = "Asia/Tokyo"
        assert sync_schedules().changed == [ECHO]
        assert recurring[ECHO].timezone == "Asia/Tokyo"


def test_a_schedule_that_is_not_there(qless) -> None:
    with pytest.raises(ScheduleNotFound, match="no recurring job 'nobody'"):
        recurring["nobody"]
    assert recurring.get("nobody") is None
    assert "nobody" not in recurring


def test_the_doctor_says_what_a_server_that_lost_its_data_lacks(qless) -> None:
    def said() -> list[str]:
        output = io.StringIO()
        with contextlib.suppress(SystemExit):
            call_command("qless_doctor", stdout=output)
        return [line for line in output.getvalue().splitlines() if "declare" in line]

    aliases = {**settings.QLESS}
    aliases["default"] = {**aliases["default"], "CONFIG": {"heartbeat": 30}}
    with override_settings(QLESS=aliases), declaring() as declare:
        declare(ECHO, every=60)
        # Before the first worker nothing is wrong.
        [line] = said()
        assert line.startswith("hint    declared")
        assert "the first one that starts applies them" in line
        DjangoEnvironment().on_start()
        assert said() == []
        connections["default"].redis.flushall()
        qless.beat("w1", "{}", [])  # a worker that was there before
        [line] = said()
        assert line.startswith("PROBLEM declared")
        assert "none of the recurring jobs and none of the options" in line
        DjangoEnvironment().on_start()
        assert said() == []
