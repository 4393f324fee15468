"""`rows=`: at each tick one job for each row, enqueued in bulk, whatever happens meanwhile."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from django.db import connection, models

from django_qless import queues, recurring
from django_qless.job_types.registry import registry
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.schedules.declared import sync_schedules
from django_qless.schedules.per_row import key_text
from django_qless.schedules.ticks import RETRIES, rows_of
from django_qless.worker.execution import Execution
from django_qless.worker.ticker import serve
from tests.in_process import WORKER
from tests.jobs_app.jobs import whoami
from tests.jobs_app.models import Feed, NewsFeed, Parcel
from tests.rows_app.models import Source
from tests.schedules.declaring import declaring
from tests.schedules.rows import vanish

BOTH = ["default", "other"]
pytestmark = pytest.mark.django_db(transaction=True, databases=BOTH)

CHECK = "jobs_app.Feed.check_now"
SEND = "jobs_app.Parcel.send"


@pytest.fixture
def declare():
    with declaring() as declare:
        yield declare


def apply(client) -> None:
    """Apply what is declared, and enqueue the jobs of ticks that are due."""
    sync_schedules()
    serve(client, WORKER)


def enqueued_by_ticks(client, queue: str) -> list:
    """Return all jobs that wait in a queue, but those that enqueue others."""
    jobs: list = []
    for offset in range(0, 10000, 1000):
        jobs += client.multiget(client.jobs("waiting", queue, offset, 1000))
    return [job for job in jobs if not job.klass.endswith(":tick")]


def test_one_job_for_each_row_of_a_queryset_method(qless, work, declare) -> None:
    Feed.objects.create(body="")
    active = [Feed.objects.create(body="x") for _ in range(3)]
    declare(CHECK, every=3600, rows="active")
    apply(qless)
    schedule = recurring[CHECK]
    assert (schedule.name, schedule.retries) == (CHECK, RETRIES)
    assert work() == 4  # the tick, and a job for each row
    assert list(Feed.objects.filter(checks=1)) == active
    assert Feed.objects.filter(checks=0).count() == 1
    assert work() == 0
    recurring[CHECK].run()
    assert work() == 4
    assert Feed.objects.filter(checks=2).count() == 3


def test_a_row_that_is_refused_keeps_no_other_from_its_tick(
    qless, work, declare
) -> None:
    for _ in range(3):
        Feed.objects.create()
    declare(CHECK, every=3600, rows="all", unique=True)
    apply(qless)
    recurring[CHECK].run()
    worker = Execution(DjangoEnvironment("default"), qless, "w")
    first, second = qless.settle("w", [], 2, ["*"]).jobs
    jobs = qless.settle("w", [worker.perform(first)], 2, ["*"]).jobs
    qless.settle("w", [worker.perform(each) for each in jobs], 0, ["*"])
    # Of one row the job is on its way still; those of the others are enqueued again.
    qless.settle("w", [worker.perform(second)], 0, ["*"])
    assert work() == 3
    assert qless.failed() == {}
    checks = Feed.objects.values_list("checks", flat=True)
    assert sorted(checks) == [1, 2, 2]


@pytest.mark.parametrize(
    "rows", ["all", lambda model: model.objects.filter(body="x").order_by("-pk")]
)
def test_all_rows_and_rows_by_a_function(qless, work, declare, rows) -> None:
    for _ in range(2):
        Feed.objects.create(body="x")
    declare(CHECK, every=3600, rows=rows)
    apply(qless)
    assert work() == 3
    assert Feed.objects.filter(checks=1).count() == 2


def test_jobs_of_rows_have_the_options_of_the_declaration(qless, declare, work) -> None:
    feed = Feed.objects.create()
    declare(
        CHECK,
        cron="0 6 * * *",
        rows="all",
        queue="slow",
        retries=7,
        priority=4,
        tags=["t"],
        expires=500,
    )
    apply(qless)
    tick = recurring[CHECK].run()
    (reserved,) = qless.settle("w", [], 1, ["slow"]).jobs
    assert (reserved.klass, reserved.jid) == (f"{CHECK}:tick", tick.jid)
    run_tick(qless, reserved)
    (job,) = enqueued_by_ticks(qless, "slow")
    assert (job.queue, job.priority, job.retries, job.tags) == ("slow", 4, 7, ("t",))
    assert job.deadline is not None
    assert json.loads(job.data) == {"v": 1, "row": feed.pk}
    assert job.jid == f"{tick.jid}:{feed.pk}"


def run_tick(client, reserved):
    """Run the job of a tick as a worker does, but settle nothing; return what came."""
    from django_qless.runtime.environment import DjangoEnvironment
    from django_qless.worker.execution import Execution

    return Execution(DjangoEnvironment(), client, "w").perform(reserved)


def test_an_operator_may_give_them_another_queue(qless, work, declare) -> None:
    Feed.objects.create()
    declare(CHECK, every=3600, rows="all")
    sync_schedules()
    recurring[CHECK].update(queue="urgent", priority=9, tags=["now"])
    assert work("urgent") == 2
    job = recurring[CHECK].run()
    (reserved,) = qless.settle("w", [], 1, ["urgent"]).jobs
    assert reserved.jid == job.jid
    run_tick(qless, reserved)
    (put,) = enqueued_by_ticks(qless, "urgent")
    assert (put.priority, put.tags) == (9, ("now",))


def test_thousands_of_rows_in_one_query(qless, declare) -> None:
    Feed.objects.bulk_create(Feed() for _ in range(5000))
    declare(CHECK, every=3600, rows="all")
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["checks"]).jobs
    queries = []

    def asked(execute, sql, *rest):
        queries.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(asked):
        settlement = run_tick(qless, reserved)
    assert settlement.verb == "complete" and settlement.args[0] == "5000"
    (sql,) = queries
    assert "body" not in sql  # nothing is read but the keys
    jobs = enqueued_by_ticks(qless, "checks")
    assert len(jobs) == 5000
    rows = Counter(json.loads(job.data)["row"] for job in jobs)
    assert rows == Counter(Feed.objects.values_list("pk", flat=True))


class Cut(Exception):
    """The process that enqueues the rows ends here."""


class CutSet(models.QuerySet):
    """Rows of which the first reading breaks off in the middle."""

    cuts: list[int] = []

    def iterator(self, chunk_size=None):
        for number, row in enumerate(super().iterator(chunk_size)):
            if self.cuts and number == self.cuts[0]:
                self.cuts.pop(0)
                raise Cut
            yield row


def test_repeating_a_tick_that_was_cut_off_adds_none(qless, declare) -> None:
    Feed.objects.bulk_create(Feed() for _ in range(3500))
    CutSet.cuts = [2500, 3000]
    declare(CHECK, every=3600, rows=lambda model: CutSet(model))
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["checks"]).jobs
    for put in (2000, 3000):
        assert run_tick(qless, reserved).verb == "retry"
        assert len(enqueued_by_ticks(qless, "checks")) == put
    done = run_tick(qless, reserved)
    assert (done.verb, done.args[0]) == ("complete", "500")
    rows = [json.loads(job.data)["row"] for job in enqueued_by_ticks(qless, "checks")]
    assert len(rows) == len(set(rows)) == 3500
    assert run_tick(qless, reserved).args[0] == "0"


def test_what_has_run_meanwhile_is_not_enqueued_again(qless, work, declare) -> None:
    Feed.objects.bulk_create(Feed() for _ in range(1500))
    CutSet.cuts = [1200]
    declare(CHECK, every=3600, rows=lambda model: CutSet(model), queue="q")
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["q"]).jobs
    first = run_tick(qless, reserved)
    assert first.verb == "retry"
    work("q")
    assert Feed.objects.filter(checks=1).count() == 1000
    assert run_tick(qless, reserved).args[0] == "500"
    work("q")
    assert Feed.objects.filter(checks=1).count() == 1500


def test_a_repeated_tick_goes_on_where_it_was(qless, work, declare) -> None:
    """Also for rows whose jobs are complete and forgotten, or were cancelled meanwhile."""
    qless.config_set("jobs-history-count", 100)
    Feed.objects.bulk_create(Feed() for _ in range(1500))
    CutSet.cuts = [1200]
    declare(CHECK, every=3600, rows=lambda model: CutSet(model), queue="q")
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["q"]).jobs
    broken = run_tick(qless, reserved)
    assert broken.verb == "retry"
    canceled = [job.jid for job in enqueued_by_ticks(qless, "q")[:500]]
    qless.cancel(canceled)
    assert work("q") == 500
    qless.settle("w", [broken._replace(args=(0, *broken.args[1:]))], 0, [])
    assert work("q") == 501
    assert Feed.objects.filter(checks=1).count() == 1000
    assert Feed.objects.filter(checks__gt=1).count() == 0
    assert not qless.redis.keys("ql:once:*")


def test_a_tick_that_lost_its_lock_enqueues_no_more(qless, work, declare) -> None:
    Feed.objects.create()
    declare(CHECK, every=3600, rows="all", queue="q")
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["q"]).jobs
    qless.timeout(reserved.jid)
    qless.config_set("jobs-history-count", 0)
    assert work("q") == 2
    run_tick(qless, reserved)
    assert work("q") == 0


def test_a_schedule_that_is_made_again_enqueues_its_rows_again(
    qless, work, declare
) -> None:
    """Jobs of the old one may be there still."""
    Feed.objects.create()
    declare(CHECK, every=3600, rows="all")
    apply(qless)
    assert work() == 2
    recurring[CHECK].remove()
    recurring.handle(CHECK).reset()
    assert work() == 2
    assert recurring[CHECK].count == 1


def all_jobs(client) -> list:
    return client.multiget(client.completed(0, 100))


def test_the_next_tick_enqueues_them_again(qless, work, declare) -> None:
    Feed.objects.create()
    declare(CHECK, every=3600, rows="all")
    apply(qless)
    for ticks in range(1, 4):
        work()
        assert Feed.objects.get().checks == ticks
        recurring[CHECK].run()


def test_a_row_that_comes_twice_has_one_job(qless, work, declare) -> None:
    def twice(model):
        # As a join may do it.
        return model.objects.all().union(model.objects.all(), all=True)

    feeds = [Feed.objects.create() for _ in range(3)]
    declare(CHECK, every=3600, rows=twice)
    apply(qless)
    assert work() == 1 + len(feeds)
    assert Feed.objects.filter(checks=1).count() == len(feeds)


def test_keys_that_look_alike_are_told_apart() -> None:
    keys = [("a~b", "c"), ("a", "b~c"), ("a", "b", "c"), "a~b~c"]
    assert len({key_text(key) for key in keys[:3]}) == 3
    assert key_text(keys[2]) == key_text(keys[3]) == "a~b~c"  # never of one model


def test_keys_of_other_kinds(qless, work, declare) -> None:
    parcels = [Parcel.objects.create() for _ in range(3)]
    declare(SEND, every=3600, rows="all", queue="post")
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["post"]).jobs
    run_tick(qless, reserved)
    jobs = enqueued_by_ticks(qless, "post")
    assert {job.jid.rpartition(":")[2] for job in jobs} == {
        str(parcel.pk) for parcel in parcels
    }
    assert work("post") == 3
    assert {qless.result(job.jid) for job in jobs} == {
        f"sent {parcel.pk}" for parcel in parcels
    }


def test_children_have_the_keys_of_their_parents(qless, work, declare) -> None:
    news = NewsFeed.objects.create()
    name = "jobs_app.NewsFeed.check_now"
    declare(name, every=3600, rows="all")
    apply(qless)
    assert work() == 2
    news.refresh_from_db()
    assert news.checks == 1


def test_rows_of_another_database(qless, work, declare) -> None:
    parcel = Parcel.objects.using("other").create()
    declare(SEND, every=3600, rows=lambda model: model.objects.using("other"))
    apply(qless)
    assert work() == 2
    (job,) = [job for job in all_jobs(qless) if job.klass == SEND]
    assert json.loads(job.data)["db"] == "other"
    assert qless.result(job.jid) == f"sent {parcel.pk}"


class Replica:
    """Reads here, writes there."""

    def db_for_read(self, model, **hints):
        return "other"

    def db_for_write(self, model, **hints):
        return "default"


def test_rows_are_run_where_they_are_written(qless, declare, settings) -> None:
    Parcel.objects.using("other").create()
    settings.DATABASE_ROUTERS = [f"{__name__}.Replica"]
    declare(SEND, every=3600, rows="all", queue="post")
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["post"]).jobs
    run_tick(qless, reserved)
    (job,) = enqueued_by_ticks(qless, "post")
    assert "db" not in json.loads(job.data)


def test_a_row_that_goes_meanwhile_is_a_failure_of_its_own(qless, work, declare):
    Feed.objects.create()
    gone = Feed.objects.create()
    declare(CHECK, every=3600, rows="all")
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["checks"]).jobs
    run_tick(qless, reserved)
    gone.delete()
    work()
    assert qless.failed() == {"row-gone": 1}
    assert recurring.get(CHECK) is not None


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (lambda model: [], "must give a queryset of jobs_app.Feed, not list"),
        (lambda model: Parcel.objects.all(), "must give a queryset of jobs_app.Feed"),
    ],
)
def test_rows_that_are_none(qless, declare, rows, words) -> None:
    declare(CHECK, every=3600, rows=rows)
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["checks"]).jobs
    settlement = run_tick(qless, reserved)
    assert (settlement.verb, settlement.args[0]) == ("fail", "bad-rows")
    assert words in settlement.args[1]


def test_code_that_does_not_know_the_rows_leaves_them_to_others(qless, declare):
    """An old worker beside a new one, which has declared them."""
    Feed.objects.create()
    with declaring() as for_now:
        for_now(CHECK, every=3600, rows="all")
        apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["checks"]).jobs
    settlement = run_tick(qless, reserved)
    assert settlement.verb == "retry"
    assert "without rows= in the code of this worker" in settlement.args[-1]
    declare(CHECK, every=3600, rows="all")
    assert run_tick(qless, reserved).args[0] == "1"


def test_proxies_give_rows_of_their_model(declare) -> None:
    from tests.jobs_app.models import ProxyFeed

    job_type = declare(CHECK, every=3600, rows=lambda model: ProxyFeed.objects.all())
    assert rows_of(job_type).model is ProxyFeed


def test_unique_jobs_are_enqueued_once_per_row(qless, work, declare) -> None:
    feeds = [Feed.objects.create() for _ in range(3)]
    declare(CHECK, every=3600, rows="all", unique=True, queue="q")
    apply(qless)
    for _ in range(2):
        (reserved,) = qless.settle("w", [], 1, ["q"]).jobs
        run_tick(qless, reserved)
        recurring[CHECK].run()
        rows = [json.loads(job.data)["row"] for job in enqueued_by_ticks(qless, "q")]
        assert sorted(rows) == [feed.pk for feed in feeds]
        break
    (reserved,) = [
        job
        for job in qless.settle("w", [], 10, ["q"]).jobs
        if job.klass.endswith(":tick")
    ]
    # They are on their way, or being run: the next tick adds none.
    assert run_tick(qless, reserved).args[0] == "0"


def test_unique_by_a_function_of_the_row(qless, declare) -> None:
    for title in "aab":
        Feed.objects.create(title=title)
    declare(
        CHECK,
        every=3600,
        rows="all",
        unique=lambda feed, by=1: feed.title,
        queue="q",
    )
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["q"]).jobs
    assert run_tick(qless, reserved).args[0] == "2"
    assert len(enqueued_by_ticks(qless, "q")) == 2


def test_what_comes_first_is_enqueued_first_for_each_row(qless, work, declare) -> None:
    feeds = [Feed.objects.create() for _ in range(2)]
    name = "jobs_app.Feed.my_jid"
    declare(name, every=3600, rows="all", after="check_now", queue="q")
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["q"]).jobs
    assert run_tick(qless, reserved).args[0] == "2"
    first = enqueued_by_ticks(qless, "checks")
    assert sorted(json.loads(job.data)["row"] for job in first) == [
        feed.pk for feed in feeds
    ]
    assert run_tick(qless, reserved).args[0] == "0"
    assert len(enqueued_by_ticks(qless, "checks")) == 2
    # Two that come first, two that come after them; the tick is held by another.
    assert work("checks", "q") == 4
    assert Feed.objects.filter(checks=1).count() == 2


def test_what_comes_first_has_the_keys_that_functions_make_of_its_row(
    qless, declare
) -> None:
    sources = [Source.objects.create(title=title) for title in ("daily", "weekly")]
    declare("rows_app.Source.after_own", every=3600, rows="all", queue="q")
    on_its_way = sources[0].own.delay()
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["q"]).jobs
    assert run_tick(qless, reserved).args[0] == "2"
    # The one of the first row is unique by declaration, and stands for the tick's.
    known, other = enqueued_by_ticks(qless, "sources")
    assert known.jid == on_its_way.jid
    assert (known.limits["key"], other.limits["key"]) == ("daily", "weekly")
    assert sources[1].own.delay().jid == other.jid


def test_a_function_of_the_row_gives_the_limit_key(qless, work, declare) -> None:
    declare(CHECK, every=3600, rows="all", queue="q", concurrency_key=title_of)
    Feed.objects.create(title="daily")
    apply(qless)
    (reserved,) = qless.settle("w", [], 1, ["q"]).jobs
    assert reserved.klass == f"{CHECK}:tick"
    assert run_tick(qless, reserved).args[0] == "1"
    [job] = enqueued_by_ticks(qless, "q")
    assert job.limits["key"] == "daily"


def title_of(feed: Feed) -> str:
    return feed.title


def test_a_tick_for_a_row_that_was_gone_before_fails(qless, declare) -> None:
    declare(CHECK, every=3600, rows="all", unique=True)
    feed = Feed.objects.create()
    data = feed.check_now.args().data
    tick = registry.get(f"{CHECK}:tick")
    assert tick is not None
    with pytest.raises(RuntimeError, match="ticks are run by workers only"):
        tick.function()
    handed_on = json.dumps({"v": 1, "args": [data, "", "default"]})
    vanish(feed)
    qless.put("", "q", "by-hand", tick.name, handed_on)
    (reserved,) = qless.settle("w", [], 1, ["q"]).jobs
    settlement = run_tick(qless, reserved)
    assert (settlement.verb, settlement.args[-2]) == ("fail", "row-gone")


NOON = 1_800_000_000
"""A time in whole minutes."""

WHOAMI = "tests.jobs_app.jobs.whoami"
MINUTELY = {"cron": {"cron": "* * * * *"}, "every": {"every": 60}}
"""What ticks at noon, and each minute from then on, if `sync` declares it half a minute before."""

NAMES = [(WHOAMI, {}), (CHECK, {"rows": "all"})]
"""Jobs that the core enqueues, and that a tick's job enqueues."""


@pytest.fixture
def move(qless):
    """Moves time: to a number of seconds after noon; cron schedules tick."""

    def move(seconds: float) -> None:
        qless.script.now = NOON + seconds
        while serve(qless, "ticker") == 0:
            pass

    move(-30)
    yield move
    qless.script.now = "*"


@pytest.fixture(params=MINUTELY)
def minutely(request):
    return MINUTELY[request.param]


@pytest.fixture
def sync(qless):
    """Declares the schedules, those of intervals with the first tick in half a minute."""

    def sync() -> None:
        apply(qless)
        for schedule in qless.schedule_list().schedules:
            if schedule.every:
                qless.schedule_update(schedule.id, offset=30)

    return sync


def runs_of(client, name: str) -> list[str]:
    """Return the ids of the jobs of this name that are complete."""
    return sorted(job.jid for job in all_jobs(client) if job.klass == name)


@pytest.mark.parametrize("unique", [None, True])
@pytest.mark.parametrize(("name", "rows"), NAMES)
def test_expires_counts_from_the_tick(
    qless, work, declare, move, sync, minutely, name, rows, unique
) -> None:
    Feed.objects.create()
    options = {"queue": "q", "expires": 5, "unique": unique, "missed": "all"}
    declare(name, **minutely, **rows, **options)
    sync()
    move(-25)
    queues["q"].pause()
    for seconds in (0, 60, 63):
        move(seconds)
    queues["q"].unpause()
    work()
    assert len(runs_of(qless, name)) == 1  # that of the second tick
    assert qless.failed() == {"expired": 1}


def test_debounce_counts_from_the_tick(
    qless, work, declare, move, sync, minutely
) -> None:
    declare(WHOAMI, **minutely, queue="q", debounce=50)
    sync()
    queues["q"].pause()
    move(-25)
    move(0)
    move(20)
    queues["q"].unpause()
    work()
    assert qless.due(["q"])[0].scheduled == NOON + 50


def test_unique_for_counts_from_the_tick(
    qless, work, declare, move, sync, minutely
) -> None:
    declare(WHOAMI, **minutely, queue="q", unique=True, unique_for=20)
    sync()
    for seconds in (-25, 0, 25):
        move(seconds)
    assert work() == 2  # late, so that the key was kept for long enough already
    assert whoami.using(unique=True, unique_for=20).delay().created


@pytest.mark.parametrize("is_paused", [True, False])
@pytest.mark.parametrize(("missed", "count"), [("last", 1), ("none", 0), ("all", 4)])
@pytest.mark.parametrize(("name", "rows"), NAMES)
def test_missed_ticks_of_a_queue_that_is_paused_or_that_nobody_serves(
    qless, work, declare, move, sync, minutely, name, rows, is_paused, missed, count
) -> None:
    Feed.objects.create()
    declare(name, **minutely, **rows, queue="q", missed=missed)
    sync()
    if is_paused:
        queues["q"].pause()
    for seconds in (-25, 0, 60, 120, 180, 220):
        move(seconds)
    if is_paused:
        queues["q"].unpause()
    work()
    assert len(runs_of(qless, name)) == recurring[name].count == count
    # In time again, nothing is missed.
    for seconds in (240, 300):
        move(seconds)
        work()
    assert len(runs_of(qless, name)) == count + 2
