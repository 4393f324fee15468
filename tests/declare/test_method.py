"""Methods of models as jobs."""

from __future__ import annotations

import json

import pytest
from django.db import connection, models
from django.db.migrations.loader import MigrationLoader

from django_qless import job
from django_qless.exceptions import InvalidJob, UnserialisableArgument
from django_qless.job_types.registry import Binding, registry
from tests.jobs_app.models import (
    Feed,
    Greeting,
    NewsFeed,
    Parcel,
    ProxyFeed,
    QuietFeed,
    Timed,
)

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def test_calling_runs_here_and_now() -> None:
    feed = Feed.objects.create(title="a")
    assert feed.rename("b") == "b"
    assert Feed.rename(feed, "c") == "c"
    assert Feed.objects.get().title == "c"
    assert Feed.check_all() == feed.check_all() == "jobs_app.Feed"
    assert Feed.count_words("a b") == feed.count_words("a b") == 2


def test_an_instance_travels_as_a_reference_and_is_loaded_fresh(qless, work) -> None:
    feed = Feed.objects.create(title="a", body="long")
    handle = feed.rename.delay("b")
    assert handle.name == "jobs_app.Feed.rename"
    assert handle.data == f'{{"v":1,"row":{feed.pk},"args":["b"]}}'
    Feed.objects.update(body="changed since")
    work()
    assert handle.result() == "b"
    feed.refresh_from_db()
    assert (feed.title, feed.body) == ("b", "changed since")


def test_the_row_may_be_passed_first(qless, work) -> None:
    feed = Feed.objects.create()
    many = Feed.rename.enqueue_many(
        [Feed.rename.args(feed, "x"), feed.rename.args("y")]
    )
    assert work() == 2
    assert [handle.result() for handle in many] == ["x", "y"]
    with pytest.raises(
        TypeError, match=r"enqueue it as feed\.rename\.delay\(…\), or pass"
    ):
        Feed.rename.delay("x")
    with pytest.raises(TypeError, match="missing a required argument: 'title'"):
        Feed.rename.delay(feed)
    with pytest.raises(TypeError, match="too many positional"):
        feed.rename.delay("a", "b")


def test_options_of_a_method(qless, work) -> None:
    feed = Feed.objects.create()
    stored = qless.get(feed.check_now.using(queue="now").delay(by=2).jid)
    assert (stored.queue, stored.priority, stored.tags) == ("now", 3, ("check",))
    assert Feed.check_now.options.queue == "checks"
    work()
    feed.refresh_from_db()
    assert feed.checks == 2


def test_class_and_static_methods(qless, work) -> None:
    Feed.objects.create()
    handle = Feed.check_all.delay(by=3)
    words = Feed.count_words.delay("one two")
    assert handle.data == '{"v":1,"kwargs":{"by":3}}'
    work()
    assert (handle.result(), words.result()) == ("jobs_app.Feed", 2)
    assert Feed.objects.get().checks == 3
    with pytest.raises(TypeError, match="too many positional"):
        Feed.check_all.delay(1, 2)


def test_each_concrete_model_has_its_own_jobs(qless, work) -> None:
    ProxyFeed.objects.create(title="p")
    news = NewsFeed.objects.create(title="n")
    handles = [
        ProxyFeed.objects.get(title="p").greet.delay(),
        news.greet.delay(word="hi"),
        NewsFeed.check_all.delay(),
        news.merge.delay(news),
    ]
    assert [handle.name for handle in handles] == [
        "jobs_app.ProxyFeed.greet",
        "jobs_app.NewsFeed.greet",
        "jobs_app.NewsFeed.check_all",
        "jobs_app.NewsFeed.merge",
    ]
    work()
    assert [handle.result() for handle in handles] == [
        "hello p",
        "hi n",
        "jobs_app.NewsFeed",
        [news.pk, news.pk, "n", "default"],
    ]


def test_a_child_may_have_its_own_version_and_call_its_parents(qless, work) -> None:
    news = NewsFeed.objects.create(title="n")
    handle = news.rename.delay("m")
    assert (handle.name, handle.queue) == ("news.rename", "news")
    work()
    assert handle.result() == "news: m"
    assert registry.get("jobs_app.NewsFeed.rename") is None


def test_a_child_s_class_method_may_call_its_parents(qless, work) -> None:
    class Local(Timed):
        class Meta:
            app_label = "rows_app"

        @classmethod
        @job("checks")
        def label(cls, sign: str = "!") -> str:
            return f"{cls.__name__}{sign}"

        def __str__(self) -> str:
            return ""

    class Child(Local):
        class Meta:
            app_label = "rows_app"
            proxy = True

        @classmethod
        @job("checks", name="rows_app.child.label")
        def label(cls, sign: str = "?") -> str:
            return f"child {super().label(sign)}"

    assert Child.label() == "child Child?"
    assert Local.label() == "Local!"
    handle = Child.label.delay()
    work()
    assert handle.result() == "child Child?"


def test_a_child_may_have_none() -> None:
    assert QuietFeed().merge(Feed()) == []
    assert not hasattr(QuietFeed.merge, "delay")
    assert registry.get("jobs_app.QuietFeed.merge") is None
    assert registry.get("jobs_app.QuietFeed.rename").owner is QuietFeed


def test_other_keys_and_databases(qless, work) -> None:
    parcel = Parcel.objects.using("other").create()
    handle = parcel.send.delay()
    assert json.loads(handle.data) == {
        "v": 1,
        "row": {"$uuid": str(parcel.pk)},
        "db": "other",
    }
    work()
    assert handle.result() == f"sent {parcel.pk}"
    here = Parcel.objects.create().send.delay()
    work()
    assert here.result().startswith("sent ")


def test_a_row_that_is_not_saved_is_refused(qless) -> None:
    for row in (Feed(), Parcel(), Feed(pk=5)):
        method = row.send if isinstance(row, Parcel) else row.rename
        with pytest.raises(UnserialisableArgument, match="save it first"):
            method.delay(*[] if isinstance(row, Parcel) else ["x"])
    assert qless.queues() == []


def test_a_row_that_is_gone_fails_in_a_group(qless, work) -> None:
    feed = Feed.objects.create()
    handle = feed.rename.delay("b")
    feed.delete()
    assert work() == 1
    failure = handle.refresh().failure
    assert failure.group == "row-gone"
    assert "jobs_app.Feed" in failure.message


def test_asynchronous_methods_use_the_same_connection(qless, work) -> None:
    feed = Feed.objects.create(title="a")
    handle = feed.atitle.delay()
    work()
    assert handle.result() == "a"


def test_mixins_and_abstract_models_are_none() -> None:
    for lost in (Greeting().greet, Timed.check_now, Timed.check_all):
        with pytest.raises(InvalidJob, match="a method, but not one of a model"):
            lost.delay()
    assert Timed.__dict__["check_now"].job_type is None
    assert "tests.jobs_app.models.Greeting.greet" not in registry
    assert "tests.jobs_app.models.Timed.check_now" not in registry


def test_historical_models_are_left_alone(qless) -> None:
    state = MigrationLoader(connection).project_state()
    historical = state.apps.get_model("jobs_app", "Feed")
    assert historical.__module__ == "__fake__"
    row = historical.objects.create(title="old")
    assert row.greet().startswith("hello")
    with pytest.raises(InvalidJob, match="not one of a model of this project"):
        row.greet.delay()
    assert registry.get("jobs_app.Feed.greet").owner is Feed


def test_binding_kinds() -> None:
    kinds = {name: registry.get(f"jobs_app.Feed.{name}") for name in vars(Feed)}
    found = {name: kind.binding for name, kind in kinds.items() if kind}
    assert found["rename"] is Binding.ROW
    assert found["check_all"] is Binding.MODEL
    assert found["count_words"] is Binding.FUNCTION


def test_the_wrong_order_is_refused_with_the_right_one() -> None:
    with pytest.raises(InvalidJob, match=r"@classmethod\n    @job\n    def digest"):

        class Digest(models.Model):  # noqa: DJ008
            class Meta:
                app_label = "jobs_app"

            @job
            @classmethod
            def digest(cls) -> None:
                """In the wrong order."""


def test_a_name_for_two_models_is_refused() -> None:
    class Named(models.Model):
        class Meta:
            abstract = True

        @job(name="one.name")
        def act(self) -> None:
            """Would be called the same on both."""

    class First(Named):  # noqa: DJ008
        class Meta:
            app_label = "jobs_app"

    assert registry.get("one.name").owner is First
    with pytest.raises(InvalidJob, match=r"'one\.name'.*First.*Second"):

        class Second(Named):  # noqa: DJ008
            class Meta:
                app_label = "jobs_app"
