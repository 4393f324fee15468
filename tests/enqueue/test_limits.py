"""Limits of jobs: declared, enqueued with their keys, held by the core."""

from __future__ import annotations

import asyncio
import json
import uuid
from functools import partial
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from django_qless import config, queues, workflow
from django_qless.conf.config_sync import declared_options, reset, sync_config
from django_qless.core import BadArgument
from django_qless.exceptions import InvalidOption
from django_qless.job_types.limits import core_options, validate_keys
from django_qless.job_types.options import declared_options as options
from tests.jobs_app import jobs
from tests.jobs_app import limited as policies
from tests.jobs_app.models import Feed
from tests.schedules.declaring import declaring

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


@pytest.fixture
def synced(qless):
    """The alias, whose declared limits are applied."""
    sync_config()
    return qless


def taken(qless, count=10, queue="default"):
    """Return the arguments of the jobs that a worker gets."""
    jobs = qless.pop(queue, "w", count)
    return [json.loads(each.data)["args"] for each in jobs]


def test_what_is_declared_becomes_options_of_the_core(synced) -> None:
    values = synced.config_all()
    name = policies.fetch.name
    assert values[f"{name}-max-concurrency-of-type"] == "2"
    assert values[f"{name}-rate-of-type"] == "100/m"
    assert values[f"{policies.charge.name}-max-concurrency-per-key"] == "1"
    assert f"{policies.report.name}-max-concurrency-per-key" not in values
    assert values[f"{policies.report.name}-rate-per-key"] == "5/s"
    assert declared_options("default").items() <= values.items()
    assert "limits" not in values


def test_an_operator_changes_them_while_jobs_run(synced) -> None:
    option = f"{policies.fetch.name}-max-concurrency-of-type"
    synced.config_set(option, 1)
    sync_config()
    assert synced.config_get(option) == "1"
    policies.fetch.enqueue_many([policies.fetch.args(str(n)) for n in range(4)])
    assert len(taken(synced)) == 1
    reset([option])
    assert len(taken(synced)) == 1


def test_limits_follow_a_job_that_is_renamed(synced) -> None:
    """What an operator has set, and jobs that were put under the old name."""
    name, new = policies.fetch.name, "tests.renamed.fetch"
    policies.fetch.enqueue_many([policies.fetch.args(str(n)) for n in range(2)])
    synced.config_set(f"{name}-max-concurrency-of-type", 3)
    with declaring() as declare:
        declare.rename(name, new)
        sync_config()
        assert synced.config_get(f"{name}-max-concurrency-of-type") is None
        assert synced.config_get(f"{name}-rate-of-type") is None
        assert synced.config_get(f"{new}-rate-of-type") == "100/m"
        data = policies.fetch.args("new").data
        for _ in range(3):
            synced.put("", "default", uuid.uuid4().hex, new, data)
        assert len(taken(synced)) == 3
        reset([f"{new}-max-concurrency-of-type"])
        assert synced.config_get(f"{new}-max-concurrency-of-type") == "2"


def test_limit_that_only_an_operator_has_set_follows_a_renamed_job(synced) -> None:
    name, new = jobs.add.name, "tests.renamed.add"
    old = jobs.add.delay(1)
    synced.config_set(f"{name}-max-concurrency-of-type", 1)
    with declaring() as declare:
        declare.rename(name, new)
        sync_config()
        assert synced.config_get(f"{new}-max-concurrency-of-type") == "1"
        synced.put("", "default", uuid.uuid4().hex, new, old.data)
        assert len(taken(synced)) == 1


@pytest.mark.parametrize("way", ["delay", "many", "async", "using", "workflow"])
def test_jobs_of_a_key_run_one_at_a_time(synced, way) -> None:
    calls = [("a", 1), ("a", 2), ("b", 3)]
    if way == "many":
        policies.charge.enqueue_many([policies.charge.args(*call) for call in calls])
    elif way == "async":
        asyncio.run(
            policies.charge.aenqueue_many([policies.charge.args(*c) for c in calls])
        )
    elif way == "workflow":
        with workflow("charges") as flow:
            for call in calls:
                flow.add(policies.charge.args(*call))
    else:
        function = (
            policies.charge.using(priority=1) if way == "using" else policies.charge
        )
        for call in calls:
            function.delay(*call)
    assert sorted(taken(synced)) == [["a", 1], ["b", 3]]
    counts = synced.queue_counts("default")
    assert (counts.waiting, counts.held_back) == (1, 1)
    [limit] = synced.limits("default").limits
    assert (limit.kind, limit.type, limit.key) == ("key", policies.charge.name, "a")
    assert (limit.held_back, limit.running, limit.most) == (1, 1, 1)


@pytest.mark.parametrize("way", ["delay", "workflow"])
def test_a_job_under_two_limits_needs_both(synced, way) -> None:
    synced.config_set(f"{policies.charge.name}-max-concurrency-of-type", 2)
    calls = [("a", 1), ("a", 2), ("b", 3), ("c", 4)]
    if way == "workflow":
        with workflow("charges") as flow:
            for call in calls:
                flow.add(policies.charge.args(*call))
    else:
        for call in calls:
            policies.charge.delay(*call)
    running = {json.loads(job.data)["args"][0]: job.jid
               for job in synced.pop("default", "w", 10)}  # fmt: skip
    assert len(running) == 2
    assert synced.queue_counts("default").held_back == 2
    other = next(customer for customer in running if customer != "a")
    synced.cancel(running[other])
    if "a" in running:  # of the two that wait the one without a key that runs
        [[customer, _]] = taken(synced)
        assert customer not in ("a", other)


def test_a_recurring_job_waits_for_its_key(synced, work) -> None:
    policies.charge.delay("a", 1)
    assert taken(synced) == [["a", 1]]
    policies.charge.recur("a", 2, every=3600)
    assert work() == 1, "only its tick"
    assert synced.queue_counts("default").held_back == 1
    policies.charge.recur("b", 3, every=3600, key="b")
    assert work() == 2, "the key of this one is free"


@pytest.mark.parametrize("make", [Feed.objects.create, uuid.uuid4])
def test_the_key_of_a_recurring_job_is_made_of_what_its_argument_stands_for(
    synced, work, make
) -> None:
    customer = make()
    policies.charge.delay(customer, 1)
    assert len(taken(synced)) == 1
    policies.charge.recur(customer, 2, every=3600)
    assert work() == 1, "only its tick"
    assert synced.queue_counts("default").held_back == 1
    [limit] = synced.limits("default").limits
    assert limit.key == str(getattr(customer, "pk", customer))


def test_a_job_of_another_client_waits_for_its_type_and_queue(synced) -> None:
    """It knows no keys."""
    name = policies.charge.name
    synced.config_set(f"{name}-max-concurrency-of-type", 2)
    for number in range(4):
        synced.put(
            "", "default", f"j{number}", name, json.dumps({"args": ["a", number]})
        )
    assert len(taken(synced)) == 2
    synced.config_unset(f"{name}-max-concurrency-of-type")
    synced.config_set("default-max-concurrency", 3)
    assert len(taken(synced)) == 1
    assert taken(synced) == []


def test_a_limit_that_becomes_one_of_keys_leaves_the_type(synced) -> None:
    name = policies.fetch.name
    with declaring() as declare:
        declare(name, max_concurrency=2, concurrency_key="url")
        sync_config(anyway=True)
        values = synced.config_all()
        assert values[f"{name}-max-concurrency-per-key"] == "2"
        assert f"{name}-max-concurrency-of-type" not in values
        assert f"{name}-rate-of-type" not in values


@pytest.mark.parametrize(
    ("function", "most"), [(policies.pair, 2), (policies.sometimes, 3)]
)
def test_with_a_key_limits_count_per_key(synced, function, most) -> None:
    """Keys have no limit together, and a job whose key is None has none."""
    calls = [function.args(key, n) for key in ("a", "b", None) for n in range(4)]
    function.enqueue_many(calls)
    running = [key for key, _ in taken(synced, 20)]
    assert {key: running.count(key) for key in ("a", "b", None)} == {
        "a": most,
        "b": most,
        None: 4,
    }


def test_the_limits_of_queue_and_type_hold_beside_those_of_keys(synced) -> None:
    policies.pair.enqueue_many(
        [policies.pair.args(key, n) for key in "abcd" for n in range(3)]
    )
    synced.config_set(f"{policies.pair.name}-max-concurrency-of-type", 3)
    assert len(taken(synced, 20)) == 3
    synced.config_set(f"{policies.pair.name}-max-concurrency-of-type", 5)
    synced.config_set("default-max-concurrency", 4)
    assert len(taken(synced, 20)) == 1


def test_jobs_of_a_key_and_tenants_run_in_a_worker(synced, work) -> None:
    handles = [policies.step.delay("c", n) for n in range(3)]
    handles += [policies.report.delay(t, n) for n in range(3) for t in "xy"]
    while work():
        pass
    assert [each.result() for each in handles[:3]] == [0, 1, 2]
    assert all(each.result() for each in handles[3:])


@pytest.mark.parametrize(
    ("customer", "key"),
    [("a", "a"), (7, "7"), (uuid.UUID(int=1), str(uuid.UUID(int=1))), (None, None)],
)
def test_keys_of_all_kinds(customer, key) -> None:
    assert policies.charge.args(customer).limit_keys.limit_key == key
    assert len(policies.charge.args("ä" * 300).limit_keys.limit_key) == 64


def test_a_row_is_a_key_and_a_text_as_long_as_names_may_be() -> None:
    feed = Feed.objects.create(title="news")
    most, more = "ä" * 127 + "x", "ä" * 128
    for customer, key in (
        (feed, str(feed.pk)),
        (most, most),
        (more, "290d9d82ff45cbf7e89de26126b1c6e996fe16bcd787e29b125f1abb85bfad69"),
    ):
        assert policies.charge.args(customer).limit_keys.limit_key == key


@pytest.mark.parametrize("customer", ["", 1.5, True, ["a"]])
def test_what_is_no_key_is_refused(qless, customer) -> None:
    with pytest.raises(InvalidOption, match="must give a text") as caught:
        policies.charge.args(customer)
    assert f"or None for a job without a key, not {customer!r}" in str(caught.value)


def test_a_key_function_that_raises_is_refused(qless) -> None:
    with pytest.raises(InvalidOption, match=r"raised KeyError.*Let it return a text"):
        policies.unkeyed.delay("a")
    assert qless.queue_counts("default").waiting == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": "fast"}, "rate must be starts and a window"),
        ({"rate": "0/s"}, "rate must be"),
        ({"rate": 100}, "rate must be"),
        ({"max_concurrency": 0}, "between 1"),
        ({"max_concurrency": True}, "a whole number"),
        ({"concurrency_key": 5}, "the name of a parameter"),
        ({"fair_by": "not a name"}, "the name of a parameter"),
    ],
)  # fmt: skip
def test_declarations_that_cannot_be(given, message) -> None:
    with pytest.raises(InvalidOption, match=message):
        options("job", given)


@pytest.mark.parametrize("rate", ["fast", "1/y", "0/s", "-1/s", "1/0s", 5])
def test_a_rate_that_cannot_be_read_is_refused_everywhere(synced, rate) -> None:
    with pytest.raises(InvalidOption, match=r'as "100/m" or "5/10s" .* not '):
        options("job", {"rate": rate})
    for change in (queues["default"].set_rate, partial(config.set, "default-rate")):
        with pytest.raises(BadArgument, match=f"as 100/m or 5/10s .* not {rate}"):
            change(rate)
    assert config.get("default-rate") is None


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (-1, "must not be below 0, as -1 is"),
        (-0.5, "must not be below 0, as -0.5 is"),
        ("many", "a finite decimal number, not many"),
        (float("nan"), "must be finite, not nan"),
    ],
)
def test_a_weight_below_0_is_refused_everywhere(synced, weight, words) -> None:
    for change in (queues["default"].set_weight, partial(config.set, "default-weight")):
        with pytest.raises(BadArgument, match=words):
            change(weight)
    with pytest.raises(CommandError, match="weight"):
        call_command("qless_queue", "limit", "default", f"--weight={weight}")
    assert config.get("default-weight") is None


def test_a_key_must_be_a_parameter() -> None:
    def function(a, b):
        pass

    with pytest.raises(InvalidOption, match=r"no such parameter. Name one of a, b"):
        validate_keys("job", options("job", {"concurrency_key": "c"}), function)


def test_limits_belong_to_the_code() -> None:
    with pytest.raises(InvalidOption, match="belongs to the job's code"):
        policies.fetch.using(rate="1/s")


def test_a_key_alone_means_one_at_a_time() -> None:
    def declared(**given):
        return core_options("j", options("j", {"concurrency_key": "a", **given}))

    assert declared() == {"j-max-concurrency-per-key": "1"}
    assert declared(rate="1/s") == {"j-rate-per-key": "1/s"}


def test_commands_set_a_rate_and_say_what_is_held_back(synced) -> None:
    def run(*args) -> str:
        out = StringIO()
        call_command(*args, stdout=out)
        return out.getvalue()

    run("qless_queue", "limit", "default", "--rate", "20/m")
    assert synced.config_get("default-rate") == "20/m"
    with pytest.raises(CommandError, match="must be starts and a window"):
        run("qless_queue", "limit", "default", "--rate", "fast")
    for n in range(3):
        policies.charge.delay("a", n)
    taken(synced)
    held = run("qless_queue", "held", "default")
    assert policies.charge.name in held
    assert "1 of 1" in held
    assert "2 (2 held back)" in run("qless_queue", "list")


def test_pages_say_what_is_held_back(synced, admin_client) -> None:
    handles = [policies.charge.delay("a", n) for n in range(2)]
    taken(synced)
    page = admin_client.get(
        "/admin/django_qless/queue/default/change/"
    ).content.decode()
    text = f"Key a of {policies.charge.name}"
    assert text in page
    assert "1 of 1 running" in page
    page = admin_client.get(f"/admin/django_qless/job/{handles[1].jid}/change/")
    assert text in page.content.decode()
    for name in ("overview", "queue"):
        page = admin_client.get(f"/admin/django_qless/{name}/")
        assert ">1 held back</span>" in page.content.decode()
