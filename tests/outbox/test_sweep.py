"""What is left in an outbox: swept up in its order, once, by one at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.test import override_settings

from django_qless.conf.connections import connections as qless_connections
from django_qless.core import Client, NotReplicated, ServerFull
from django_qless.core.commands.entities import Payload
from django_qless.outbox import backlog, calls, delivery, tables
from django_qless.outbox.models import Entry
from django_qless.outbox.sweep import Swept, _is_locked, sweep
from django_qless.runtime import outboxes
from django_qless.runtime.outboxes import sweep_all as sweep_quietly
from tests.jobs_app import jobs, secret
from tests.jobs_app.models import Feed

BOTH = ["default", "other"]
pytestmark = pytest.mark.django_db(transaction=True, databases=BOTH)

kept = jobs.add.using(on_commit="outbox")
renamed = Feed.rename.using(on_commit="outbox", queue="default")


def waiting(qless: Client) -> list[str]:
    return [job.jid for job in qless.peek("default", 100)]


def left(away: Any, *numbers: int, database: str = "default") -> list[str]:
    """Commit jobs while the server is away; return their jids."""
    row = Feed(pk=1)
    row._state.db, row._state.adding = database, False
    jids = []
    for number in numbers:
        with away(), transaction.atomic(using=database):
            jids.append(renamed.delay(row, f"{number}").jid)
    return jids


@pytest.mark.parametrize(
    ("raised", "is_locked"),
    [
        (SimpleNamespace(sqlstate="55P03", args=()), True),  # psycopg
        (SimpleNamespace(pgcode="55P03", args=()), True),  # psycopg2
        (SimpleNamespace(args=(1205, "Lock wait timeout exceeded")), True),  # MariaDB
        (SimpleNamespace(args=(3572, "NOWAIT is set")), True),  # MySQL
        (SimpleNamespace(sqlstate="42601", args=("syntax error",)), False),
        (SimpleNamespace(args=(0,)), False),
        (SimpleNamespace(args=()), False),
        (None, False),
    ],
)
def test_what_each_driver_raises_for_entries_that_another_holds(
    raised: Any, is_locked: bool
) -> None:
    error: Any = SimpleNamespace(__cause__=raised)
    assert _is_locked(error) is is_locked


@contextmanager
def refusing(word: str, error: Exception, database: str = "default") -> Iterator[None]:
    """Let a database refuse the statements that begin with a word."""

    def execute(call: Any, sql: str, *args: Any) -> Any:
        if sql.lstrip().startswith(word):
            raise error
        return call(sql, *args)

    with connections[database].execute_wrapper(execute):
        yield


def test_young_entries_belong_to_their_process(qless, away) -> None:
    left(away, 1)
    assert sweep("default", "default").entries == 0
    assert Entry.objects.count() == 1


def test_old_ones_are_delivered_in_their_order(qless, away, sweep_all) -> None:
    jids = left(away, *range(20))
    assert sweep_all().entries == 20
    assert waiting(qless) == jids
    assert not Entry.objects.exists()


def test_the_server_is_told_that_entries_are_gone(qless, away, sweep_all) -> None:
    left(away, *range(3))
    assert sweep_all().entries == 3
    replies = qless.redis.keys(f"{qless.prefix}once:*")
    assert len(replies) == 3
    # A minute, and not the week of those whose source may come back.
    assert all(0 < qless.redis.ttl(reply) <= 60 for reply in replies)


def test_one_that_was_delivered_before_its_process_died_is_only_taken_out(
    qless, sweep_all, monkeypatch
) -> None:
    monkeypatch.setattr("django_qless.outbox.entries.Written.remove", lambda self: None)
    with transaction.atomic():
        handle = kept.delay(1)
    qless.cancel(handle.jid)
    qless.config_set("canceled-history", 0)
    assert Entry.objects.count() == 1
    assert sweep_all().entries == 1
    assert waiting(qless) == []
    assert not Entry.objects.exists()


def test_what_the_sweep_has_taken_is_not_put_again_by_its_process(
    qless, away, sweep_all, work
) -> None:
    with transaction.atomic():
        handle = kept.delay(1)
        # A sweep sees what is committed; here it is in the same connection.
        sweep_all()
        work()
    assert not handle.pending
    assert waiting(qless) == []


def test_each_alias_and_database_is_swept_for_itself(qless, away, sweep_all) -> None:
    first = left(away, 1)
    second = left(away, 2, database="other")
    with away(), transaction.atomic():
        kept.using(alias="other").delay(3)
    Entry.objects.update(created="2020-01-01T00:00:00Z")
    assert sweep_all("other").entries == 1
    assert waiting(qless) == second
    assert sweep_all("default").entries == 1
    assert waiting(qless) == second + first


def test_what_is_refused_is_logged_and_taken_out(
    qless, away, sweep_all, caplog
) -> None:
    bad = kept.using(after=["unknown"])
    with away(), transaction.atomic():
        bad.delay(1)
        handles = kept.enqueue_many([kept.args(2), bad.args(3), kept.args(4)])
    assert sweep_all().entries == 2
    assert waiting(qless) == [handles[0].jid, handles[2].jid]
    assert caplog.text.count("was not enqueued from the outbox") == 2
    assert not Entry.objects.exists()


def test_sensitive_values_of_what_is_refused_are_not_logged(
    qless, away, sweep_all, caplog
) -> None:
    user = secret.keep_contact.using(on_commit="outbox")
    refused = secret.sign_in.using(on_commit="outbox", after=["unknown"])
    # The queue has entities of another type.
    qless.push("", user.options.queue, "other.type", [Payload("e", '{"v":1}', "1")])
    with away(), transaction.atomic():
        refused.delay("Ann", "hush")
        refused.enqueue_many([refused.args("Bob", "hush"), refused.args("Eve", "hush")])
        user.push("Ann", "hush")
    caplog.clear()
    sweep_all()
    messages = [record.getMessage() for record in caplog.records]
    for name, message in zip(("Ann", "Bob", "Eve"), messages, strict=False):
        assert f'"args":["{name}","[hidden]"]' in message
    assert len(messages) == 4
    assert "hush" not in caplog.text


def test_a_server_that_takes_nothing_stops_the_sweep(
    qless, away, sweep_all, server, caplog
) -> None:
    jids = left(away, 1, 2)
    server.shared_client().config_set("maxmemory", 1)
    try:
        swept = sweep_all()
        assert isinstance(swept.error, ServerFull)
        assert Entry.objects.count() == 2
        sweep_quietly("default", "default")
        sweep_quietly("default", "default")
    finally:
        server.shared_client().config_set("maxmemory", 0)
    assert caplog.text.count("outbox not swept") == 1
    assert sweep_all().entries == 2
    assert waiting(qless) == jids


def test_more_than_one_query_reads_takes_several(qless, away, sweep_all) -> None:
    left(away, *range(5))
    Entry.objects.update(created="2020-01-01T00:00:00Z")
    swept = sweep("default", "default", most=2)
    assert (swept.entries, swept.last is None) == (2, False)
    assert sweep_quietly("default", "default") == 3


def test_in_mariadb_the_clock_is_that_of_utc() -> None:
    compiler = Entry.objects.all().query.get_compiler("default")
    sql, _ = tables.Now().as_mysql(compiler, connection)
    assert sql == "UTC_TIMESTAMP(6)"


def test_a_sweep_is_one_query_on_an_index(qless, django_assert_num_queries) -> None:
    with django_assert_num_queries(1) as found:
        sweep("default", "default")
    plan = f"EXPLAIN QUERY PLAN {found.captured_queries[0]['sql']}"
    with connection.cursor() as cursor:
        cursor.execute(plan)
        assert "USING INDEX qless_outbox_alias" in str(cursor.fetchall())


def test_the_process_delivers_its_own_backlog_before_new_jobs(qless, away) -> None:
    jids = left(away, *range(3))
    with transaction.atomic():
        at_once = kept.delay(7)
    # It is too early for another try: it stays behind the others.
    assert at_once.pending
    assert waiting(qless) == []
    backlog._behind["default", "default"] = 0.0
    with transaction.atomic():
        last = kept.delay(8)
    assert waiting(qless) == [*jids, at_once.jid, last.jid]
    assert (last.pending, last.created) == (False, True)
    assert not backlog._behind
    assert not Entry.objects.exists()


def test_a_database_that_is_busy_does_not_fail_a_commit(
    qless, away, monkeypatch, caplog
) -> None:
    jids = left(away, 1)

    def busy(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("database is locked")

    backlog._behind["default", "default"] = 0.0
    with monkeypatch.context() as patch:
        patch.setattr("django_qless.outbox.sweep.sweep", busy)
        with transaction.atomic():
            late = kept.delay(2)
    assert late.pending
    assert "database is locked" in caplog.text
    backlog._behind["default", "default"] = 0.0
    with transaction.atomic():
        last = kept.delay(3)
    assert waiting(qless) == [*jids, late.jid, last.jid]


def test_a_large_backlog_is_left_to_the_sweep(
    qless, away, sweep_all, monkeypatch
) -> None:
    monkeypatch.setattr(backlog, "SHARE", 2)
    jids = left(away, *range(5))
    backlog._behind["default", "default"] = 0.0
    with transaction.atomic():
        last = kept.delay(8)
    assert last.pending
    assert waiting(qless) == jids[:2]
    assert sweep_all().entries == 4
    assert waiting(qless) == [*jids, last.jid]
    with transaction.atomic():
        assert kept.delay(9).pending is True
    assert not kept.delay(1).pending


def test_other_threads_wait_for_the_backlog_too(qless, away) -> None:
    left(away, 1)
    pending: list[bool] = []

    def enqueue() -> None:
        with transaction.atomic():
            handle = kept.delay(2)
        pending.append(handle.pending)
        connections.close_all()

    thread = threading.Thread(target=enqueue)
    thread.start()
    thread.join()
    assert pending == [True]


def test_calls_are_kept_to_the_letter(qless) -> None:
    request = Client.put_many.build(
        None, "w", [jobs_put("a", '{"a":"\\u0000é"}'), jobs_put("b", "[]")]
    )
    [call] = request.parts
    read = calls.read(calls.written(call))
    assert calls.written(read) == calls.written(call)
    singles = list(calls.single_puts(read))
    assert [jid for jid, _ in singles] == ["a", "b"]
    assert all(single.args[0] == "w" for _, single in singles)


def jobs_put(jid: str, data: str) -> Any:
    from django_qless.core import Put

    return Put(jid, "q", "klass", data, priority=3)


def test_a_source_is_a_process(qless) -> None:
    assert tables.source() == tables.source()
    assert len(tables.source()) == 32


def test_a_database_without_the_table_is_left_out() -> None:
    with connections["other"].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {Entry._meta.db_table} RENAME TO aside")
    try:
        assert list(tables.migrated_databases()) == ["default"]
    finally:
        with connections["other"].cursor() as cursor:
            cursor.execute(f"ALTER TABLE aside RENAME TO {Entry._meta.db_table}")


def test_that_entries_are_gone_is_told_with_the_next(server) -> None:
    with override_settings(QLESS={"default": {"LOCATION": server.url}}):
        for number in range(3):
            with transaction.atomic():
                kept.delay(number)
    client = server.client(decode_responses=True)
    first, second, last = sorted(client.ttl(name) for name in client.keys("ql:once:*"))
    client.close()
    # Two are to be forgotten in a minute; of the last the server was not told yet.
    assert 0 < first <= second <= 60
    assert last > 6 * 86_400


def test_entries_that_others_deliver_just_now_are_no_trouble(
    monkeypatch, caplog
) -> None:
    """They are asked for some times more."""
    found = Swept(1, None, OperationalError("database is locked"))
    monkeypatch.setattr(outboxes, "sweep", lambda *_, **__: found)
    monkeypatch.setattr(outboxes, "AGAIN", 0)
    monkeypatch.setattr(outboxes, "_troubles", {})
    with caplog.at_level("WARNING", "django_qless"):
        assert outboxes.sweep_all("default", "default") == outboxes.TRIES + 1
        assert caplog.messages == []
        found = Swept(1, None, ConnectionError("no server"))
        assert outboxes.sweep_all("default", "default") == 1
        assert outboxes.sweep_all("default", "default") == 1
    assert caplog.messages == [
        "outbox not swept: database=default error=no server",
    ]


def test_what_cannot_be_taken_out_is_delivered_once(qless, sweep_all, caplog) -> None:
    busy = OperationalError("database is locked")
    with refusing("DELETE", busy), transaction.atomic():
        handle = kept.delay(1)
    assert handle.created
    assert caplog.messages == [
        "a sweep takes tests.jobs_app.jobs.add out later: database is locked"
    ]
    [entry] = Entry.objects.all()
    assert str(entry) == f"tests.jobs_app.jobs.add ({entry.pk})"
    assert sweep_all().entries == 1
    assert waiting(qless) == [handle.jid]


def test_the_error_of_an_insert_is_the_databases_own(qless) -> None:
    error = OperationalError("the disk is full")
    error.__cause__ = driver = RuntimeError("of the driver")
    with refusing("INSERT", error), transaction.atomic():
        with pytest.raises(OperationalError) as caught:
            kept.delay(1)
        assert caught.value is error
        assert error.__cause__ is driver


def test_a_database_that_is_away_counts_as_migrated() -> None:
    away = OperationalError("no route to host")
    with refusing("", away, "other"):
        assert list(tables.migrated_databases()) == ["default", "other"]


def test_many_entries_are_swept_up_at_once(qless, away) -> None:
    with away(), transaction.atomic():
        jids = [kept.delay(number).jid for number in range(201)]
    Entry.objects.update(created="2020-01-01T00:00:00Z")
    assert sweep_quietly("default", "default") == 201
    assert qless.jobs("waiting", "default", 0, 300) == jids


def test_what_was_read_long_ago_is_read_again(
    qless, away, sweep_all, monkeypatch
) -> None:
    jids = left(away, 1, 2)
    with monkeypatch.context() as patch:
        patch.setattr("django_qless.outbox.sweep.FRESH", -1)
        assert sweep_all() == Swept()
    assert Entry.objects.count() == 2
    assert sweep_all().entries == 2
    assert waiting(qless) == jids


def test_a_server_that_goes_away_meanwhile_is_told_later(
    qless, away, sweep_all
) -> None:
    left(away, 1)
    [entry] = Entry.objects.all()
    with ExitStack() as stack:

        def execute(call: Any, sql: str, *args: Any) -> Any:
            if sql.startswith("DELETE"):
                stack.enter_context(away())
            return call(sql, *args)

        with connection.execute_wrapper(execute):
            assert sweep_all().entries == 1
    assert len(waiting(qless)) == 1
    assert entry.delivery in delivery.told_with_next("default")


@pytest.mark.parametrize("word", ["SELECT", "no JSON"])
def test_troubles_of_a_sweep_are_logged_once(
    qless, away, sweep_all, monkeypatch, caplog, word
) -> None:
    monkeypatch.setattr(outboxes, "_troubles", {})
    jids = left(away, 1)
    Entry.objects.update(created="2020-01-01T00:00:00Z")
    caplog.clear()
    if word == "SELECT":
        with refusing("SELECT", OperationalError("no such table")):
            with pytest.raises(OperationalError, match="no such table"):
                sweep("default", "default")
            assert sweep_quietly("default", "default") == 0
            assert sweep_quietly("default", "default") == 0
        assert caplog.messages == [
            "outbox not swept: database=default error=no such table"
        ]
    else:
        command = Entry.objects.get().command
        Entry.objects.update(command=word)
        assert sweep_quietly("default", "default") == 0
        assert sweep_quietly("default", "default") == 0
        assert caplog.messages[0] == "an outbox cannot be swept: database=default"
        assert caplog.messages[1].startswith("outbox not swept: database=default")
        assert len(caplog.messages) == 2
        Entry.objects.update(command=command)
    assert sweep_quietly("default", "default") == 1
    assert waiting(qless) == jids


class TestReplicas:
    """Replicas are to have what is enqueued, and there is none."""

    @pytest.fixture
    def lonely(self, server: Any) -> Iterator[None]:
        given = {"LOCATION": server.url, "REPLICAS": 1}
        with override_settings(QLESS={"default": given}):
            yield

    def test_it_stays_until_they_have_it(self, server, lonely, sweep_all) -> None:
        # (Outside of tests that is logged.)
        with pytest.raises(NotReplicated), transaction.atomic():
            handle = kept.delay(1)
        assert handle.created
        assert sweep_all().entries == 0
        assert Entry.objects.count() == 1
        with override_settings(QLESS={"default": {"LOCATION": server.url}}):
            assert sweep_all().entries == 1
            assert waiting(qless_connections["default"]) == [handle.jid]
        assert not Entry.objects.exists()

    def test_what_a_sweep_has_delivered_is_not_put_again(
        self, lonely, sweep_all, caplog
    ) -> None:
        handles = []

        def put_it() -> None:
            handles.append(kept.delay(1))
            # A sweep sees what is committed; here it is in the same connection.
            sweep_all()
            qless_connections["default"].cancel(handles[0].jid)

        # No replica has what the sweep put, either.
        with pytest.raises(NotReplicated):
            transaction.atomic(put_it)()
        [handle] = handles
        assert (handle.pending, handle.created) == (False, True)
        assert waiting(qless_connections["default"]) == []
        assert Entry.objects.count() == 1
        assert caplog.messages == []
