"""Classes as jobs, as in qless-py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import transaction

from django_qless import job
from django_qless.exceptions import InvalidJob, UnserialisableArgument
from django_qless.job_types.registry import registry
from tests.jobs_app.jobs import Gnomes


def test_the_queue_names_the_method(qless, work) -> None:
    handle = Gnomes.delay({"wanted": 1})
    assert (handle.name, handle.queue) == ("tests.jobs_app.jobs.Gnomes", "steal")
    assert handle.data == '{"wanted":1}'
    assert work("steal") == 1
    moved = handle.refresh()
    assert (moved.state, moved.queue) == ("waiting", "profit")
    assert moved.data == '{"wanted":1,"stolen":2}'
    work("profit")
    failure = handle.refresh().failure
    assert (failure.group, failure.message.splitlines()[-1]) == (
        "no-profit",
        "2 and then?",
    )


def test_other_queues_are_for_process(qless, work) -> None:
    handle = Gnomes.using(queue="anything").delay([1])
    work()
    assert handle.refresh().state == "complete"


def test_what_a_qless_py_client_enqueues_is_run(qless, work) -> None:
    qless.put("", "anything", "x", "tests.jobs_app.jobs.Gnomes", '{"a": [] }')
    work()
    assert qless.get("x").state == "complete"
    assert qless.get("x").data == '{"a": [] }'


def test_keywords_become_an_object_and_many_are_enqueued(qless) -> None:
    assert Gnomes.delay(wanted=3).data == '{"wanted":3}'
    assert Gnomes.enqueue().data == "{}"
    assert asyncio.run(Gnomes.aenqueue("text")).data == '"text"'
    many = Gnomes.enqueue_many([Gnomes.args([]), Gnomes.args(1)])
    assert [handle.data for handle in many] == ["[]", "1"]


@pytest.mark.django_db(transaction=True)
def test_the_word_for_a_database_means_nothing_in_its_data(qless) -> None:
    with transaction.atomic():
        handle = Gnomes.using(on_commit=False).delay({"db": "elsewhere"})
        assert handle.refresh().state == "waiting"
    assert handle.data == '{"db":"elsewhere"}'
    assert Gnomes.delay([{"db": "elsewhere"}]).refresh().state == "waiting"


def test_only_plain_json(qless) -> None:
    for wrong in ({1, 2}, float("nan")):
        with pytest.raises(UnserialisableArgument, match="Gnomes: data: "):
            Gnomes.delay(wrong)
    with pytest.raises(TypeError, match="takes one JSON value"):
        Gnomes.delay(1, 2)
    with pytest.raises(TypeError, match="takes one JSON value"):
        Gnomes.delay(1, b=2)


def test_the_class_stays_a_class() -> None:
    assert isinstance(Gnomes, type)
    assert isinstance(Gnomes(), Gnomes)


@job(name="tests.words")
class Words:
    """Uses all the words of qless-py."""

    @staticmethod
    def again(job: Any) -> None:
        job.retry(60, "later", "not yet")

    @staticmethod
    def facts(job: Any) -> None:
        job.data = [job.klass_name, job.queue_name, job.original_retries, job["a"]]
        job.data.append(job.worker_name)
        job.heartbeat()

    @staticmethod
    async def later(job: Any) -> None:
        job["seen"] = job.queue_name
        job.complete("facts")

    @staticmethod
    def changed_its_mind(job: Any) -> None:
        job.fail("a", "b")
        job.complete("next")
        job.complete()

    def no_static_method(self) -> None:
        """Cannot be called without an instance."""


def test_the_words_of_qless_py(qless, work) -> None:
    later = Words.using(queue="again").delay()
    facts = Words.using(queue="facts").delay(a=5)
    changed = Words.using(queue="changed_its_mind").delay()
    work()
    waiting = later.refresh()
    assert (waiting.state, waiting.failure.group) == ("scheduled", "later")
    assert facts.refresh().data == '["tests.words","facts",3,5,"test-worker"]'
    assert changed.refresh().state == "complete"


def test_a_coroutine_uses_the_same_words(qless, each_work) -> None:
    handle = Words.using(queue="later").delay(a=5)
    assert each_work("later") == 1
    now = handle.refresh()
    assert (now.state, now.queue) == ("waiting", "facts")
    assert now.data == '{"a":5,"seen":"later"}'


def test_a_queue_without_a_method_fails_in_a_group(qless, work) -> None:
    missing = Words.using(queue="nobody").delay()
    wrong = Words.using(queue="no_static_method").delay()
    work()
    assert missing.refresh().failure.group == "nobody-method-missing"
    assert wrong.refresh().failure.group == "no_static_method-method-type"


def test_what_all_classes_have_is_no_method_for_a_queue(qless, work) -> None:
    handle = Words.using(queue="mro").delay()
    work()
    failure = handle.refresh().failure
    assert failure.group == "mro-method-type"
    assert failure.message.endswith("Words.mro must be a static method")


def test_its_own_verbs_are_no_methods_for_queues(qless, work) -> None:
    handle = Words.using(queue="delay").delay()
    work()
    assert handle.refresh().failure.group == "delay-method-missing"


def test_a_child_is_no_job_by_itself() -> None:
    class Child(Words):
        pass

    with pytest.raises(InvalidJob, match="only its parent Words is"):
        Child.delay()
    with pytest.raises(InvalidJob, match="defined inside a function"):
        job(Child)

    with pytest.raises(InvalidJob, match=r"Outer.Inner is defined inside .* a name="):

        class Outer:
            @job
            class Inner:
                pass

    class Taken:
        delay = 5

    with pytest.raises(InvalidJob, match="has an attribute 'delay'"):
        job(name="taken")(Taken)
    assert "taken" not in registry
