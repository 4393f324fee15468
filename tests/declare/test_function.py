"""Functions as jobs: calling them, enqueueing them, running them."""

from __future__ import annotations

import asyncio
import copy
import inspect
import time
from datetime import UTC, datetime, timedelta

import pytest

from django_qless import job, wait_all
from django_qless.core import BadArgument
from django_qless.exceptions import InvalidJob, InvalidOption, UnknownOption
from django_qless.job_types.registry import registry
from django_qless.testing import (
    assert_enqueued,
    assert_not_enqueued,
    captured_jobs,
)
from tests.jobs_app import jobs


def test_calling_runs_here_and_now() -> None:
    assert jobs.add(1, 2, factor=3) == 9
    assert asyncio.run(jobs.aadd(1, 2)) == 3


def test_the_function_keeps_its_face() -> None:
    assert jobs.send_welcome.__name__ == "send_welcome"
    assert jobs.send_welcome.__doc__ == "Send a mail."
    assert str(inspect.signature(jobs.add)) == str(
        inspect.signature(jobs.add.__wrapped__)
    )
    assert inspect.iscoroutinefunction(jobs.aadd.__wrapped__)


@pytest.mark.parametrize("verb", ["delay", "enqueue"])
def test_delay_and_enqueue_do_the_same(qless, work, verb) -> None:
    handle = getattr(jobs.add, verb)(1, b=2, factor=3)
    assert handle.state == "waiting"
    assert work() == 1
    assert handle.result() == 9


def test_aenqueue_enqueues_the_job(qless, work) -> None:
    async def put():
        return await jobs.add.aenqueue(1, b=2)

    handle = asyncio.run(put())
    assert work() == 1
    assert handle.result() == 3


def test_adelay_enqueues_the_job(qless, work) -> None:
    handle = asyncio.run(jobs.add.adelay(1, b=2))
    assert work() == 1
    assert handle.result() == 3


def test_a_coroutine_function_is_a_job(qless, work) -> None:
    handle = jobs.aadd.delay(1, 2)
    work()
    assert handle.result() == 3


def test_what_is_enqueued_is_compact(qless) -> None:
    handle = jobs.add.delay(1, factor=2)
    stored = qless.get(handle.jid)
    assert stored.data == '{"v":1,"args":[1],"kwargs":{"factor":2}}'
    assert stored.klass == "tests.jobs_app.jobs.add"
    assert (stored.retries, stored.priority, stored.tags) == (3, 0, ())
    assert stored.context == {}
    assert qless.get(jobs.whoami.delay().jid).data == '{"v":1}'


def test_options_of_the_decorator_reach_the_job(qless) -> None:
    stored = qless.get(jobs.send_welcome.delay("ann").jid)
    assert stored.queue == "mail"
    assert stored.priority == 10
    assert stored.retries == 5
    assert stored.tags == ("mail",)


def test_using_returns_a_copy_with_other_options(qless) -> None:
    other = jobs.send_welcome.using(queue="bulk", priority=-3, tags=["a", "b"])
    stored = qless.get(other.delay("ann").jid)
    assert (stored.queue, stored.priority, stored.tags) == ("bulk", -3, ("a", "b"))
    assert jobs.send_welcome.options.queue == "mail"
    assert qless.get(jobs.send_welcome.delay("ann").jid).queue == "mail"
    # What the decorator gave stays unless it is given again, and copies can be changed.
    assert other.using(retries=0).options.tags == ("a", "b")


def test_using_in_another_alias(qless, work) -> None:
    handle = jobs.add.using(alias="other").delay(1)
    assert qless.get(handle.jid) is None
    assert work() == 0
    assert work(alias="other") == 1
    assert handle.result() == 1


def test_delay_and_run_at(qless) -> None:
    handle = jobs.add.using(delay=timedelta(minutes=1)).delay(1)
    assert handle.state == handle.refresh().state == "scheduled"
    soon = datetime.now(UTC) + timedelta(hours=1)
    later = jobs.add.using(run_at=soon).delay(1)
    assert later.refresh().state == "scheduled"
    assert qless.jobs("scheduled", "default") == [handle.jid, later.jid]
    past = jobs.add.using(run_at=soon - timedelta(days=1)).delay(1)
    assert past.refresh().state == "waiting"


@pytest.mark.parametrize("off", [-7200, 7200])
def test_times_travel_as_times_whatever_the_clock_here_says(
    qless, monkeypatch, off: int
) -> None:
    begins = datetime.now(UTC) + timedelta(hours=1)
    ends = begins + timedelta(minutes=5)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + off)
    later = jobs.add.using(run_at=begins, expires=ends)
    many = later.enqueue_many(jobs.add.args(i) for i in range(2))
    for handle in (later.delay(1), *many):
        due = qless.redis.zscore("ql:q:default-scheduled", handle.jid)
        assert due == pytest.approx(begins.timestamp())
        assert qless.get(handle.jid).deadline == pytest.approx(ends.timestamp())


def test_the_jid_may_be_chosen(qless) -> None:
    assert jobs.add.using(jid="mine").delay(1).jid == "mine"
    assert qless.get("mine").data == '{"v":1,"args":[1]}'


def test_enqueue_many_keeps_the_order(qless, work) -> None:
    handles = jobs.add.enqueue_many(jobs.add.args(i) for i in range(2_500))
    assert qless.queue_counts("default").waiting == 2_500
    assert [job.jid for job in qless.peek("default", 250)] == [
        handle.jid for handle in handles[:250]
    ]
    assert jobs.add.enqueue_many([]) == []


def test_arguments_keep_the_options_that_they_were_made_with(qless) -> None:
    urgent, plain = jobs.add.using(priority=9, tags=["x"]), jobs.add
    handles = plain.enqueue_many(
        [plain.args(1), urgent.args(2), urgent.args(3), plain.args(4)]
    )
    seen = [(h.refresh().priority, h.refresh().tags) for h in handles]
    assert [(p, list(t)) for p, t in seen] == [(0, []), (9, ["x"]), (9, ["x"]), (0, [])]


def test_a_plain_argument_takes_the_options_of_the_call(qless) -> None:
    [handle] = jobs.add.using(queue="bulk").enqueue_many([jobs.add.args(1)])
    assert handle.refresh().queue == "bulk"


def test_aenqueue_many(qless) -> None:
    async def put():
        many = [jobs.add.args(1), jobs.add.args(2)]
        return await jobs.add.using(queue="bulk").aenqueue_many(many)

    handles = asyncio.run(put())
    assert [job.jid for job in qless.peek("bulk", 5)] == [h.jid for h in handles]


def test_enqueue_many_takes_only_its_own_arguments(qless) -> None:
    with pytest.raises(
        TypeError, match=r"takes what add\.args.*not arguments of .*aadd$"
    ):
        jobs.add.enqueue_many([jobs.aadd.args(1, 2)])
    with pytest.raises(TypeError, match="not 7"):
        jobs.add.enqueue_many([7])
    with pytest.raises(InvalidOption, match="can name one job, not 2"):
        jobs.add.using(jid="x").enqueue_many([jobs.add.args(1), jobs.add.args(2)])
    assert qless.queues() == []


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"c": 3}, "unexpected keyword argument 'c'"),
        ((1,), {"a": 3}, "multiple values for argument 'a'"),
    ],
)
def test_arguments_that_the_function_does_not_take(qless, args, kwargs, message):
    with pytest.raises(TypeError, match=rf"jobs\.add\(a.*{message}"):
        jobs.add.delay(*args, **kwargs)
    with pytest.raises(TypeError, match=message):
        jobs.add.args(*args, **kwargs)
    assert qless.queues() == []


def test_after_waits_for_handles_and_jids(qless, work) -> None:
    first, second = jobs.add.delay(1), jobs.add.delay(2)
    last = jobs.add.using(after=[first, second.jid]).delay(3)
    assert last.state == last.refresh().state == "depends"
    assert set(last.dependencies) == {first.jid, second.jid}
    assert first.refresh().dependents == [last.jid]
    for one in (first, second.jid):
        assert jobs.add.using(after=one).delay(4).state == "depends"
    assert work() == 5
    assert last.result() == 3


def test_after_many_from_asynchronous_code(qless) -> None:
    async def put():
        args = [jobs.add.args(i) for i in range(1_000)]
        handles = await jobs.add.aenqueue_many(args)
        after = jobs.add.using(after=handles, queue="last")
        both = await after.aenqueue_many([jobs.add.args(1), jobs.add.args(2)])
        return [await handle.arefresh() for handle in both]

    assert [len(h.dependencies) for h in asyncio.run(put())] == [1_000, 1_000]


def test_names_and_aliases(qless, work) -> None:
    assert registry.get("tests.jobs_app.jobs.add") is jobs.add.job_type
    assert registry.get("old.send") is jobs.send_welcome.job_type
    assert registry.get("no.such.job") is None
    qless.put("", "mail", "old", "old.send", '{"v":1,"args":["ann"]}')
    work()
    assert qless.result("old") == "welcome to ann"


def test_a_name_belongs_to_one_job() -> None:
    def twice() -> None:
        """Only here to have its name taken."""

    with pytest.raises(InvalidJob, match=r"'tests\.jobs_app\.jobs\.add'"):
        job(name="tests.jobs_app.jobs.add")(twice)
    with pytest.raises(InvalidJob, match=r"Two jobs are called 'old\.send'"):
        job(name="fresh.name", aliases=["old.send"])(twice)
    assert registry.get("fresh.name") is None


def test_what_cannot_be_a_job() -> None:
    def local() -> None:
        """Nobody can find this one."""

    def generator():
        yield 1

    for wrong, message in [
        (local, "defined inside a function"),
        (generator, "yields; a job returns"),
        (jobs.add, "has @job twice"),
        (classmethod(local), "@classmethod must stand above @job"),
        (staticmethod(local), "@staticmethod must stand above @job"),
        (property(local), "a property cannot be a job"),
        (object(), "the queue must be a string"),
    ]:
        with pytest.raises((InvalidJob, InvalidOption), match=message):
            job(wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": 3}, "no option 'retry'. Did you mean retry_on or retries"),
        ({"uniqe": "key"}, "no option 'uniqe'. Did you mean unique"),
        ({"countdown": 5}, r"no option 'countdown'\. Here it is delay= \(seconds\)"),
        ({"eta": 5}, r"no option 'eta'\. Here it is run_at="),
        ({"backoff": 10**400}, "backoff must be seconds, a list of them"),
        ({"retries": -1}, "retries must be between 0"),
        ({"retries": 1.5}, "retries must be a whole number, not 1.5"),
        ({"retries": True}, "retries must be a whole number, not True"),
        ({"priority": "high"}, "priority must be a whole number, not 'high'"),
        ({"timeout": 0}, "timeout must be above 0"),
        ({"tags": "mail"}, "tags must be a list of tags, not 'mail'"),
        ({"tags": [1]}, "tags must be a list of tags, each a string"),
        ({"tags": [str(i) for i in range(33)]}, "at most 32 tags"),
        ({"queue": ""}, "queue must be a string that is not empty"),
        ({"queue": "m*"}, "queue must be the name of one queue"),
        ({"queue": "x" * 256}, "queue must be at most 255 bytes long"),
        ({"alias": 3}, "alias must be a string"),
        ({"backoff": []}, "backoff must be a list with at least one number"),
        ({"backoff": "slow"}, "backoff must be seconds, a list of them, exponential"),
        ({"result_ttl": None}, "result_ttl must be a whole number"),
        ({"on_commit": 1}, 'on_commit must be False, True, "outbox" or the name'),
    ],
)
def test_wrong_options_are_told_at_once(qless, options, message) -> None:
    def function() -> None:
        """A job to be."""

    with pytest.raises(InvalidOption, match=message) as caught:
        job(name="never.registered", **options)(function)
    assert "test_wrong_options_are_told_at_once" in str(caught.value)
    with pytest.raises(InvalidOption, match=message):
        jobs.add.using(**options)
    assert registry.get("never.registered") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jid": "x-history"}, "jid must be an id that does not end in -history"),
        ({"run_at": datetime(2030, 1, 1)}, "run_at must be an aware datetime"),
        ({"run_at": 5}, "run_at must be a datetime"),
        ({"delay": 10**400}, "delay must be a finite number"),
        ({"delay": -1}, "delay must be a finite number of seconds, not below 0"),
        ({"delay": float("nan")}, "delay must be a finite number"),
        ({"delay": "1"}, "delay must be a number of seconds or a timedelta, not '1'"),
        ({"delay": 1, "run_at": datetime.now(UTC)}, "exclude each other"),
        ({"after": 5}, "after must be the handle or the id of a job, or a list"),
        ({"after": [5]}, "after must be the handle or the id of a job, or a list"),
        ({"after": [""]}, "after must be the handle or the id of a job, or a list"),
        ({"on_commit": "nowhere"}, "on_commit='nowhere' is not in DATABASES"),
        ({"backoff": lambda attempt, error: 1}, "a function as backoff cannot travel"),
    ],
)
def test_wrong_options_of_a_call(qless, options, message) -> None:
    with pytest.raises(InvalidOption, match=message):
        jobs.add.using(**options).delay(1)
    assert qless.queues() == []


def test_some_options_are_for_calls_only() -> None:
    for option in ("jid", "run_at", "delay", "app_data"):
        with pytest.raises(InvalidOption, match=rf"\.using\({option}=…\)\.delay"):
            job(**{option: None})(lambda: None)
    with pytest.raises(UnknownOption, match=r"no option 'jids'\. Did you mean jid"):
        jobs.add.using(jids=1)
    with pytest.raises(InvalidOption, match="the queue is given twice"):
        job("mail", queue="mail")


def test_an_unknown_option_lists_those_allowed_there() -> None:
    with pytest.raises(UnknownOption) as raised:
        jobs.add.using(prioritty=3)
    allowed = str(raised.value).partition("The options here are ")[2]
    assert {"priority", "run_at", "jid"} <= set(allowed.rstrip(".").split(", "))
    assert "sensitive" not in allowed
    with pytest.raises(UnknownOption) as raised:
        job(prioritty=3)(lambda: None)
    allowed = str(raised.value).partition("The options here are ")[2]
    assert {"priority", "sensitive", "cron"} <= set(allowed.split(".")[0].split(", "))
    assert "run_at" not in allowed


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("apply_async", r"\.using\(delay=…, queue=…\)\.delay\(…\)"),
        ("s", r"\.args\(…\)"),
        ("send", r"\.delay\(…\)"),
    ],
)
def test_methods_of_other_queues_name_ours(name, instead) -> None:
    with pytest.raises(AttributeError, match=f"no {name}: here it is {instead}"):
        getattr(jobs.add, name)
    assert not hasattr(jobs.add, "no_such_thing")
    assert copy.copy(jobs.add).name == jobs.add.name


@pytest.mark.parametrize(
    ("keywords", "hint"),
    [
        ({"countdown": 5}, r"For countdown use delay= \(seconds\), in \.using\(…\)"),
        ({"priority": 5}, r"Options of the job go into \.using\(priority=…\)"),
        ({"colour": 5}, r"unexpected keyword argument 'colour'$"),
    ],
)
def test_options_among_the_arguments_are_shown_their_place(
    qless, keywords, hint
) -> None:
    with pytest.raises(TypeError, match=hint):
        jobs.add.delay(1, **keywords)
    assert qless.queues() == []


@pytest.mark.parametrize("timeout", ["x", float("nan"), 10**400, True])
def test_a_wait_for_no_number_of_seconds_is_refused(qless, timeout) -> None:
    handle = jobs.add.delay(1)
    with pytest.raises(BadArgument, match="timeout must be"):
        handle.wait(timeout)
    with pytest.raises(BadArgument, match="timeout must be"):
        handle.result(timeout)
    with pytest.raises(BadArgument, match="timeout must be"):
        wait_all([handle], timeout)
    with pytest.raises(BadArgument, match="timeout must be"):
        asyncio.run(handle.await_(timeout))


def test_what_a_call_changes_travels_with_the_job(qless) -> None:
    put = jobs.send_welcome.using(timeout=5, backoff=[1, 2])
    stored = qless.get(put.using(result_ttl=60, retries=1).delay("ann").jid)
    assert stored.context == {
        "options": {
            "timeout": 5,
            "backoff": [1, 2],
            "result_ttl": 60,
        }
    }
    qless.pop("mail", "w")
    job_type = jobs.send_welcome.job_type
    assert job_type.options_for("") is job_type.options
    found = job_type.options_for('{"options":{"timeout":5,"backoff":[1,2]}}')
    assert (found.timeout, found.backoff, found.result_ttl) == (5, (1, 2), 3600)


def test_a_dependency_that_does_not_exist_is_an_error(qless) -> None:
    from django_qless.core import JobNotFound

    with pytest.raises(JobNotFound, match="nobody"):
        jobs.add.using(after=["nobody"]).delay(1)
    assert qless.queue_counts("default").depends == 0


def test_all_of_many_dependencies_or_none(qless) -> None:
    from django_qless.core import JobNotFound

    jids = [h.jid for h in jobs.add.enqueue_many(jobs.add.args(i) for i in range(999))]
    lost = jobs.add.using(after=[*jids, "nobody"], queue="last")

    async def put():
        await lost.aenqueue(1)

    with pytest.raises(JobNotFound, match="nobody"):
        lost.delay(1)
    with pytest.raises(JobNotFound, match="nobody"):
        asyncio.run(put())
    assert qless.queue_counts("last").depends == 0
    assert qless.get(jids[0]).dependents == ()


def test_dependencies_do_not_cross_aliases(qless) -> None:
    first = jobs.add.using(alias="other").delay(1)
    with pytest.raises(InvalidOption, match=f"job {first.jid} is in alias 'other'"):
        jobs.add.using(after=[first])


def test_the_signal_tells_of_each_job(qless) -> None:
    from django_qless.signals import job_enqueued

    told = []

    def listen(sender, handle, **kwargs):
        told.append((sender.name, handle.jid, handle.pending))

    job_enqueued.connect(listen)
    try:
        one = jobs.add.delay(1)
        many = jobs.add.enqueue_many([jobs.add.args(2), jobs.add.args(3)])
    finally:
        job_enqueued.disconnect(listen)
    jobs.add.delay(4)
    name = "tests.jobs_app.jobs.add"
    assert told == [(name, handle.jid, False) for handle in [one, *many]]


def test_a_static_method_of_any_class_is_a_job(qless, work) -> None:
    handle = jobs.Tools.sharpen.delay("saw")
    work()
    assert handle.result() == "sharp saw"
    assert jobs.Tools.sharpen("axe") == "sharp axe"


def test_a_method_without_a_row_is_none(qless) -> None:
    class Lost:
        @job
        def method(self) -> None:
            """Cannot be enqueued: there is no row to call it on."""

        @staticmethod
        @job
        def static() -> None:
            """Could be, if a worker could find the class."""

    # Whether the class is a model shows when it has been made, so not where @job stands.
    for enqueue in (Lost().method.delay, Lost.method.delay, Lost.static.delay):
        with pytest.raises(InvalidJob) as caught:
            enqueue()
        assert "is in a class inside a function, where a worker cannot" in str(
            caught.value
        )
        assert "test_a_method_without_a_row_is_none.<locals>.Lost" in str(caught.value)
        assert "move the class to the module" in str(caught.value)
    for lost in ("method", "static"):
        assert Lost.static.name.replace("static", lost) not in registry


def test_a_job_that_enqueues_jobs(qless, work) -> None:
    handle = jobs.fan_out.delay(3)
    assert work() == 4
    assert len(handle.result()) == 3
    assert time.time() - handle.refresh().history[-1]["when"] < 60


def test_a_jid_that_is_enqueued_again_has_what_the_second_call_says(qless) -> None:
    jobs.add.using(jid="one", tags=["old"], priority=5).delay(1)
    handle = jobs.add.using(jid="one").delay(1).refresh()
    assert (list(handle.tags), handle.priority) == ([], 0)


def test_a_function_that_tells_nothing_of_its_arguments(qless, work) -> None:
    """As those in C may be."""
    largest = job(name="tests.max", unique=True, on_conflict="keep")(max)
    try:
        first, again = largest.delay(3, 5), largest.delay(3, 5)
        other = largest.delay(5, 3)
        assert first.jid == again.jid != other.jid
        assert work() == 2
        assert (first.result(), other.result()) == (5, 5)
        with pytest.raises(InvalidOption, match="it has none"):
            job(name="tests.min", sensitive="key")(min)
        with pytest.raises(InvalidOption, match=r"no such parameter\. .* none"):
            job(name="tests.min", concurrency_key="key")(min)
        with captured_jobs():
            largest.delay(3, 5)
            assert_enqueued(largest, 3, 5)
            assert_not_enqueued(largest, 5, 3)
    finally:
        del registry._types["tests.max"]
