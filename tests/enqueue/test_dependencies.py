"""`after="refresh"`: what comes first is enqueued first, once, unless one is on its way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_qless.core import JobNotFound
from django_qless.enqueue.dependencies import dependencies_of
from django_qless.enqueue.plan import Tick, declared_plan
from django_qless.enqueue.request import CallArguments
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types.registry import registry
from django_qless.serialization import envelope
from django_qless.testing import clock
from tests.jobs_app import policies
from tests.jobs_app.jobs import add
from tests.rows_app import jobs
from tests.rows_app.models import Mirror, Source

if TYPE_CHECKING:
    from django_qless.core import Client, Reserved

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


@pytest.fixture(autouse=True)
def done() -> Iterator[list[Any]]:
    Source.done.clear()
    jobs.done.clear()
    yield Source.done
    Source.done.clear()


def finish(client: Client, job: Reserved) -> None:
    client.complete(job.jid, job.token, job.queue, job.data)


@pytest.fixture
def source() -> Source:
    return Source.objects.create(title="s")


def names(done: list[Any]) -> list[str]:
    return [name for name, _ in done]


def test_what_comes_first_is_enqueued_first(qless, work, source, done) -> None:
    handle = source.parse.delay(3)
    [first] = handle.dependencies
    stored = qless.get(first)
    assert (stored.klass, stored.queue) == ("rows_app.Source.refresh", "sources")
    assert (stored.priority, stored.retries, stored.state) == (7, 3, "waiting")
    assert stored.data == f'{{"v":1,"row":{source.pk}}}'
    assert list(qless.get(handle.jid).dependencies) == [first]
    assert (handle.state, handle.created) == ("depends", True)
    assert work() == 2
    assert handle.result() == 3
    assert done == [("refresh", source.pk), ("parse", source.pk)]


def test_the_row_may_be_passed(qless, work, source, done) -> None:
    handle = Source.parse.delay(source, 3)
    assert len(handle.dependencies) == 1
    assert work() == 2
    assert done == [("refresh", source.pk), ("parse", source.pk)]


def test_in_one_call(qless, source, monkeypatch) -> None:
    calls = []
    run = type(qless).run
    monkeypatch.setattr(
        type(qless), "run", lambda self, call: (calls.append(call), run(self, call))[1]
    )
    source.mail.delay()
    assert len(calls) == 1
    assert qless.queue_counts("sources").depends == 3


def test_once_for_several(qless, work, source, done) -> None:
    other = Source.objects.create()
    handles = [source.parse.delay(), source.parse.delay(), source.draw.delay()]
    apart = other.parse.delay()
    assert len({tuple(handle.dependencies) for handle in handles}) == 1
    assert apart.dependencies != handles[0].dependencies
    assert work() == 6
    assert sorted(names(done)) == ["draw", "parse", "parse", "parse"] + ["refresh"] * 2


@pytest.mark.parametrize("way", ["delay", "enqueue_many", "arguments", "running"])
def test_not_again_if_one_is_on_its_way(qless, work, source, done, way) -> None:
    if way == "enqueue_many":
        [first] = Source.refresh.enqueue_many([source.refresh.args(full=True)])
    elif way == "arguments":
        first = source.refresh.using(queue="elsewhere", delay=0).delay(full=True)
    else:
        first = source.refresh.delay()
    running = qless.settle("w", [], 1, ["*"]).jobs if way == "running" else []
    handle = source.parse.delay()
    assert handle.dependencies == [first.jid]
    assert list(qless.get(handle.jid).dependencies) == [first.jid]
    for reserved in running:
        assert work() == 0
        finish(qless, reserved)
    work()
    assert names(done)[-1] == "parse"
    assert names(done).count("refresh") == (0 if way == "running" else 1)


def test_again_once_it_has_ended(qless, work, source, done) -> None:
    first = source.refresh.delay()
    work()
    source.parse.delay()
    work()
    assert names(done) == ["refresh", "refresh", "parse"]
    [handle] = [source.refresh.delay()]
    qless.cancel(handle.jid)
    second = source.parse.delay()
    assert handle.jid not in second.dependencies
    assert first.jid not in second.dependencies


def test_a_failed_one_is_not_on_its_way(qless, source) -> None:
    first = source.parse.delay()
    [reserved] = qless.settle("w", [], 1, ["*"]).jobs
    qless.fail(reserved.jid, reserved.token, "group", "message")
    second = source.parse.delay()
    assert second.dependencies != first.dependencies
    assert qless.get(first.jid).state == "depends"


def test_chains(qless, work, source, done) -> None:
    handle = source.publish.delay()
    parse = qless.get(*handle.dependencies)
    assert parse.klass == "rows_app.Source.parse"
    assert [qless.get(jid).klass for jid in parse.dependencies] == [
        "rows_app.Source.refresh"
    ]
    work()
    assert names(done) == ["refresh", "parse", "publish"]


def test_only_what_is_missing_of_a_chain(qless, work, source, done) -> None:
    parse = source.parse.delay()
    [reserved] = qless.settle("w", [], 1, ["*"]).jobs
    finish(qless, reserved)
    # The refresh is done, and parse is on its way: nothing else is enqueued before it.
    publish = source.publish.delay()
    assert publish.dependencies == [parse.jid]
    assert work() == 2
    assert names(done) == ["parse", "publish"]


def test_what_two_need_is_enqueued_once(qless, work, source, done) -> None:
    mail = source.mail.delay()
    assert len(mail.dependencies) == 2
    assert work() == 4
    assert names(done)[0] == "refresh"
    assert sorted(names(done)[1:3]) == ["draw", "parse"]
    assert names(done)[3:] == ["mail"]


def test_what_one_of_two_needs_is_enqueued(qless, work, source, done) -> None:
    parse = source.parse.delay()
    [reserved] = qless.settle("w", [], 1, ["*"]).jobs
    finish(qless, reserved)
    mail = source.mail.delay()
    assert parse.jid in mail.dependencies
    work()
    assert sorted(names(done)) == ["draw", "mail", "parse", "refresh"]


def test_class_methods_and_functions(qless, work, source, done) -> None:
    count, compare = Source.count_all.delay(), source.compare.delay()
    third = jobs.compare.delay()
    [first] = {*count.dependencies, *compare.dependencies, *third.dependencies}
    assert qless.get(first).data == '{"v":1}'
    assert work() == 4
    assert names(done)[0] == "fetch_all"
    jobs.summarise.delay("monday")
    assert work() == 2
    assert jobs.done == ["compare", "collect", "summarise monday"]


def test_its_own_unique_key_counts(qless, source) -> None:
    first = source.own.delay()
    assert source.after_own.delay().dependencies == [first.jid]
    other = Source.objects.create(title="t").after_own.delay()
    assert other.dependencies != [first.jid]
    # So does its limit key, however it is enqueued.
    assert qless.get(first.jid).limits["key"] == "s"
    assert qless.get(*other.dependencies).limits["key"] == "t"
    fetch = Source.fetch_all.delay()
    assert source.compare.delay().dependencies == [fetch.jid]


@pytest.mark.parametrize("how", ["delay", "spawn"])
def test_enqueued_by_the_job_that_it_comes_after(
    qless, work, source, done, how
) -> None:
    begin = source.begin.delay(how)
    last = source.draw.using(after=begin).delay()
    assert work() == 3
    assert names(done)[0] == "begin"
    if how == "spawn":  # who waits for the one waits for the other
        assert names(done) == ["begin", "go_on", "draw"]
    assert last.refresh().state == "complete"


def test_a_proxy_has_its_own(qless, work, source, done) -> None:
    mirror = Mirror.objects.get()
    handle = mirror.parse.delay()
    assert (handle.queue, handle.name) == ("mirrors", "rows_app.Mirror.parse")
    assert qless.get(*handle.dependencies).klass == "rows_app.Mirror.refresh"
    work()
    assert names(done) == ["refresh", "mirrored"]


def test_expired_job_is_not_on_its_way_for_others(qless, work) -> None:
    moment = clock.now("default") + 3
    one = policies.after_early.delay()
    with clock.travel_to("default", moment):
        other = policies.after_early.delay()
    assert other.dependencies != one.dependencies
    work()
    assert (one.refresh().state, other.refresh().state) == ("depends", "complete")


class TestUsing:
    def test_it_takes_the_place_of_what_is_declared(self, qless, source) -> None:
        assert source.parse.using(after=()).delay().dependencies == []
        other = add.delay(1)
        handle = source.parse.using(after=other).delay()
        assert handle.dependencies == [other.jid]
        assert list(qless.get(handle.jid).dependencies) == [other.jid]

    def test_a_text_is_an_id(self, qless, source) -> None:
        source.refresh.delay()
        with pytest.raises(JobNotFound, match="refresh"):
            source.parse.using(after="refresh").delay()


class TestNames:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("refrsh", r"after='refrsh': there is no such job; those of rows_app.Source are .*"
             r"Did you mean 'refresh'\?"),
            ("title", "title of rows_app.Source is no job: give it @job"),
            ("parse", "a cycle: parse → parse"),
            ("publish", "a cycle: parse → publish → parse"),
            ("rows_app.Country.greet", "runs on a row, and which one"),
            ("tests.jobs_app.jobs.add", r"without arguments, but .*add.*missing a req"),
            ("tests.jobs_app.jobs.whoami", "written elsewhere.* give it unique=True"),
            ("tests.jobs_app.jobs.Gnomes", "is a class job, and its data would be unknown"),
            ("f" * 20, "Ids of jobs go into .using"),
        ],
    )  # fmt: skip
    def test_wrong_names_are_told(self, name, message) -> None:
        with pytest.raises(InvalidJob, match=message):
            dependencies_of(Source.parse.job_type, (name,), "")

    def test_a_class_beside_it_is_no_job_that_needs_nothing(self) -> None:
        with pytest.raises(InvalidJob, match="is a class job, and its data would be"):
            dependencies_of(add.job_type, ("Gnomes",), "")
        with pytest.raises(InvalidJob, match=r"Tools of tests.jobs_app.jobs is no job"):
            dependencies_of(add.job_type, ("Tools",), "")

    def test_a_function_has_no_row(self) -> None:
        with pytest.raises(InvalidJob, match="runs on a row, and which one"):
            dependencies_of(Source.count_all.job_type, ("refresh",), "")

    def test_dependencies_do_not_cross_aliases(self, qless, source) -> None:
        with pytest.raises(
            InvalidOption, match=r"in alias 'default' .*; a job in alias 'other'"
        ):
            source.parse.using(alias="other").delay()


class TestMany:
    def test_a_thousand_rows(self, qless, work, done, monkeypatch) -> None:
        Source.objects.bulk_create(Source(title=str(n)) for n in range(700))
        sources = list(Source.objects.all())
        first = sources[0].refresh.delay()
        calls = []
        run = type(qless).run
        monkeypatch.setattr(
            type(qless), "run", lambda self, each: (calls.append(1), run(self, each))[1]
        )
        handles = Source.publish.enqueue_many(
            [each.publish.args() for each in sources for _ in range(2)]
        )
        monkeypatch.undo()
        # Each is three jobs, of which a call takes a thousand.
        assert len(calls) == 5
        assert len(handles) == 1400
        assert all(handle.created for handle in handles)
        assert handles[0].dependencies == handles[1].dependencies
        parse = qless.get(handles[0].dependencies[0])
        assert list(parse.dependencies) == [first.jid]
        assert work() == 4 * 700

    def test_from_asynchronous_code(self, qless, work, done) -> None:
        import asyncio

        source = Source.objects.create()

        async def put() -> None:
            one = await source.parse.aenqueue()
            [two] = await Source.draw.aenqueue_many([source.draw.args()])
            assert one.dependencies == two.dependencies

        asyncio.run(put())
        assert work() == 3


def test_given_jids_that_may_be_there_already(qless, work, source, done) -> None:
    # As a schedule enqueues the jobs of its rows, perhaps twice.
    job_type = registry.get("rows_app.Source.publish")
    row = envelope.reference("it", source, Source)
    data = envelope.encode("it", (), {}, row)
    dependencies = dependencies_of(job_type, job_type.options.after_names, row)
    job = CallArguments(job_type, data, None, dependencies=dependencies)
    jobs = [(f"tick:{n}", job) for n in range(2)]
    qless.put("", "ticks", "held", "tick", "{}")
    [held] = qless.settle("w", [], 1, ["ticks"]).jobs
    tick = Tick("tick", time.time(), held.jid, held.token, qless)
    assert declared_plan(job_type).enqueue_missing(tick, jobs) == 2
    assert work() == 4
    assert names(done) == ["refresh", "parse", "publish", "publish"]
    # The second time nothing is enqueued, not even what would come first.
    assert declared_plan(job_type).enqueue_missing(tick, jobs) == 0
    assert work() == 0


class TestTransactions:
    def test_all_is_enqueued_at_the_commit(self, qless, work, source, done) -> None:
        with transaction.atomic():
            handle = source.parse.delay()
            assert handle.pending
            assert qless.queues() == []
            # Meanwhile another process enqueues one.
            first = source.refresh.using(on_commit=False).delay()
        assert handle.dependencies == [first.jid]
        assert work() == 2

    def test_or_nothing(self, qless, source) -> None:
        with transaction.atomic():
            source.publish.delay()
            transaction.set_rollback(True)
        assert qless.queues() == []


def test_nothing_is_left_behind(qless, work, source, server) -> None:
    source.mail.delay()
    cancelled = source.refresh.delay()
    work()
    assert cancelled.refresh().state == "complete"
    assert list(server.client().scan_iter(match="ql:unique:*")) == []


def test_what_nobody_comes_after_has_no_key(qless, source) -> None:
    assert qless.get(source.publish.delay().jid).unique is None
    assert registry.get("rows_app.Source.publish") is not None
