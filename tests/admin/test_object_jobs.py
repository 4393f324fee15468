"""`JobsAdminMixin`: the jobs of an object beside its change form, and putting them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.db.models import Model
from django.test import Client, override_settings
from django.urls import path as route

from django_qless import jobs, queues
from django_qless.admin import listing, register
from django_qless.admin.components import row_jobs
from django_qless.admin.mixin import JobsAdminMixin
from tests.in_process import in_main_thread, worker
from tests.jobs_app.models import Feed, NewsFeed, Parcel, ProxyFeed
from tests.rows_app.models import Country, Source, Spare, Wheel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("qless")]


@pytest.fixture(autouse=True)
def shop() -> Any:
    with override_settings(ROOT_URLCONF="tests.admin.shop"):
        yield


def browser(*codenames: str) -> Client:
    """Return a browser in which a staff user with these permissions is logged in."""
    user = User.objects.create(username=f"staff {len(codenames)}", is_staff=True)
    for name in codenames:
        found = Permission.objects.filter(codename=name)
        assert found, name
        user.user_permissions.add(*found)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def work(qless, django_db_blocker) -> Any:
    """Run jobs in this process until the queues are empty."""
    return worker(in_main_thread, django_db_blocker)


@pytest.fixture
def chief() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("chief"))
    return client


@contextmanager
def plain_shop(model: type[Model]) -> Iterator[None]:
    """A site on which this model has an admin with the mixin."""
    site = AdminSite(name="shop")
    register(site)
    site.register(model, type("SomeAdmin", (JobsAdminMixin, ModelAdmin), {}))
    urls = ModuleType("plain_shop")
    urls.urlpatterns = [
        route("admin/", admin.site.urls),
        route("shop/", site.urls),
    ]
    with override_settings(ROOT_URLCONF=urls):
        yield


@pytest.fixture
def feed() -> Feed:
    return Feed.objects.create(title="<b>news</b>")


def url(row: Any, page: str = "jobs/", **query: Any) -> str:
    meta = row._meta
    path = f"/shop/{meta.app_label}/{meta.model_name}/{row.pk}/{page}"
    return f"{path}?{urlencode(query)}" if query else path


def text(response: Any) -> str:
    assert response.status_code == 200, response.content
    return response.content.decode()


class TestTheButton:
    def test_is_on_the_change_form(self, chief, feed) -> None:
        page = text(chief.get(url(feed, "change/")))
        assert f'<li><a href="{url(feed)}">Jobs</a></li>' in page
        assert "History" in page

    def test_is_on_a_form_with_a_template_of_its_own(self, chief, feed) -> None:
        page = text(chief.get(url(ProxyFeed.objects.get(), "change/")))
        assert f'href="/shop/jobs_app/proxyfeed/{feed.pk}/jobs/"' in page
        assert "a tool of our own" in page
        assert "History" in page

    def test_a_form_with_errors_has_it_and_so_saves(self, chief, feed) -> None:
        form = chief.get(url(feed, "change/")).context["adminform"].form
        given = {name: str(form[name].value()) for name in form.fields}
        page = text(chief.post(url(feed, "change/"), given | {"title": ""}))
        assert "Please correct" in page
        assert url(feed) in page
        saved = chief.post(
            url(feed, "change/"), given | {"title": "other", "body": "b"}
        )
        assert saved.status_code == 302, text(saved)
        feed.refresh_from_db()
        assert feed.title == "other"

    def test_is_not_on_the_form_of_a_new_object(self, chief) -> None:
        assert "jobs/" not in text(chief.get("/shop/jobs_app/feed/add/"))

    def test_is_not_there_for_those_who_may_not_see_jobs(self, feed) -> None:
        page = text(browser("view_feed", "change_feed").get(url(feed, "change/")))
        assert url(feed) not in page

    def test_a_link_in_the_list(self, chief, feed) -> None:
        assert f'<a href="{url(feed)}">Jobs</a>' in text(
            chief.get("/shop/jobs_app/feed/")
        )


class TestThePage:
    def test_says_where_it_is_as_djangos_own_pages_do(self, chief, feed) -> None:
        form, page = (
            text(chief.get(f"/shop/jobs_app/feed/{feed.pk}/change/")),
            text(chief.get(url(feed))),
        )
        kind = r'<(\w+) class="breadcrumbs">'
        assert re.search(kind, page)[1] == re.search(kind, form)[1]

    def test_without_a_job_nothing_can_be_done_with_those_selected(
        self, chief, feed
    ) -> None:
        assert "qless-selection" not in text(chief.get(url(feed)))
        feed.rename.delay("x")
        assert "qless-selection" in text(chief.get(url(feed)))

    def test_shows_the_jobs_of_this_object(self, chief, feed, work) -> None:
        other = Feed.objects.create()
        theirs = [other.rename.delay("x").jid, other.merge.delay(feed).jid]
        done = feed.merge.delay(other)
        work()
        ours = [done.jid, feed.rename.delay("y").jid, feed.merge.delay(other).jid]
        ours.append(ProxyFeed.objects.get(pk=feed.pk).rename.delay("z").jid)
        page = text(chief.get(url(feed)))
        assert all(
            f"/shop/django_qless/job/{quoted(jid)}/change/" in page for jid in ours
        )
        assert not any(quoted(jid) in page for jid in theirs)
        assert "4 found; scanned 6 of 6" in page
        assert "&lt;b&gt;news&lt;/b&gt;" in page
        assert "<b>news" not in page

    def test_can_be_narrowed(self, chief, feed, work) -> None:
        feed.rename.delay("x")
        work()
        waiting, merge = feed.rename.delay("y"), feed.merge.delay(feed)
        page = text(chief.get(url(feed, state="waiting", job="jobs_app.Feed.rename")))
        assert quoted(waiting.jid) in page
        assert quoted(merge.jid) not in page
        assert "1 found; scanned 2 of 2" in page
        # What there is none of narrows nothing.
        assert "3 found" in text(chief.get(url(feed, state="x", job="y")))

    @pytest.mark.parametrize(
        ("row", "name"),
        [
            (lambda: Parcel.objects.create(), "send"),
            (lambda: Country.objects.create(code="NZ"), "greet"),
        ],
    )
    def test_keys_of_other_kinds(self, chief, row, name) -> None:
        row = row()
        handle = getattr(row, name).delay()
        assert quoted(handle.jid) in text(chief.get(url(row)))

    def test_a_child_has_the_jobs_of_its_parent(self, chief) -> None:
        spare = Spare.objects.create(code="s1")
        of_spare = spare.turn.delay()
        of_wheel = Wheel.objects.get().turn.delay()
        page = text(chief.get(url(spare)))
        assert quoted(of_spare.jid) in page
        assert quoted(of_wheel.jid) in page
        assert "2 found" in page

    def test_former_names_and_names_of_ones_own(self, qless) -> None:
        news = NewsFeed.objects.create()
        handle = news.rename.delay("x")
        assert handle.name == "news.rename"
        plain = Feed.objects.get().merge.delay(news)
        found = row_jobs.RowJobs(news, "default").search(
            qless, state=None, name=None, offset=0
        )
        assert {each.jid for each in found.jobs} == {handle.jid, plain.jid}

    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_rows_of_two_databases(self, feed, qless) -> None:
        elsewhere = Feed.objects.using("other").create(pk=feed.pk)
        for row, handle in (
            (feed, feed.rename.delay("x")),
            (elsewhere, elsewhere.rename.delay("y")),
        ):
            found = row_jobs.RowJobs(row, "default").search(
                qless, state=None, name=None, offset=0
            )
            assert [each.jid for each in found.jobs] == [handle.jid]

    def test_finds_them_behind_thousands_of_others(self, chief, feed) -> None:
        other = Feed.objects.create()
        Feed.rename.enqueue_many(Feed.rename.args(other, "x") for _ in range(2500))
        last = feed.rename.delay("x")
        assert quoted(last.jid) in text(chief.get(url(feed)))

    def test_a_page_without_time_goes_on(self, chief, feed, monkeypatch) -> None:
        monkeypatch.setattr(listing, "SEARCH_SECONDS", 0)
        other = Feed.objects.create()
        Feed.rename.enqueue_many(Feed.rename.args(other, "x") for _ in range(1200))
        last = feed.rename.delay("x")
        page = text(chief.get(url(feed)))
        assert "0 found; scanned 1,000 of 1,201" in page
        assert quoted(last.jid) not in page
        assert "offset=1000" in page and "data-continue" in page
        following = text(chief.get(url(feed, offset=1000)))
        assert "1 found; scanned 1,201 of 1,201" in following
        assert quoted(last.jid) in following

    def test_data_written_by_people(self, chief, feed, qless) -> None:
        data = json.dumps({"v": 1, "row": feed.pk, "args": ["x"]})
        qless.put("", "q", "by-hand", "jobs_app.Feed.rename", data)
        assert "by-hand" in text(chief.get(url(feed)))

    def test_stops_when_a_page_is_full(self, chief, feed) -> None:
        other = Feed.objects.create()
        Feed.rename.enqueue_many(
            Feed.rename.args(feed if n % 6 == 5 else other, "x") for n in range(600)
        )
        page = text(chief.get(url(feed)))
        assert "50 found; scanned 300 of 600" in page
        following = text(chief.get(url(feed, offset=300)))
        assert "50 found; scanned 600 of 600" in following
        assert "Continue" not in following
        jids = re.compile(r'name="jid" value="([^"]+)"')
        shown = jids.findall(page) + jids.findall(following)
        assert len(set(shown)) == len(shown) == 100

    def test_a_job_whose_data_are_anything(self, chief, feed, qless) -> None:
        for n, data in enumerate(
            ("[1]", "5", '{"row":[]}', '{"v":1,"row":{}}', "null", '[{"row": 5}]')
        ):
            qless.put("", "q", str(n), "jobs_app.Feed.rename", data)
        assert "0 found; scanned 6 of 6" in text(chief.get(url(feed)))

    def test_schedules_of_the_object(self, chief, feed) -> None:
        feed.merge.recur(feed, every=600)
        Feed.objects.create().merge.recur(feed, every=900)
        page = text(chief.get(url(feed)))
        assert "every 10 minutes" in page
        assert "every 15 minutes" not in page

    def test_what_can_be_put(self, chief, feed) -> None:
        page = text(chief.get(url(feed)))
        assert '<code dir="ltr">log_in(user, password, *rest, note=…)</code>' in page
        assert '<code dir="ltr">rename(title)</code>' in page
        assert "count_words" not in page  # runs on no row

    def test_a_hidden_or_missing_object(self, chief) -> None:
        hidden = Feed.objects.create(title="not for you")
        for path in (url(hidden), "/shop/jobs_app/feed/none/jobs/"):
            response = chief.get(path)
            assert response.status_code == 404
            assert "There is no feed" in response.content.decode()

    def test_an_unknown_alias(self, chief, feed) -> None:
        assert chief.get(url(feed, alias="mars")).status_code == 404

    def test_another_alias(self, chief, feed) -> None:
        feed.rename.using(alias="other").delay("x")
        assert "0 found" in text(chief.get(url(feed)))
        assert "1 found" in text(chief.get(url(feed, alias="other")))

    def test_a_server_that_is_down(self, chief, feed) -> None:
        gone = {"default": {"LOCATION": "redis://localhost:1/0"}}
        with override_settings(QLESS=gone):
            assert "does not answer" in text(chief.get(url(feed)))

    def test_changes_nothing(self, chief, feed, redis_client) -> None:
        feed.rename.delay("x")
        text(chief.get(url(feed)))  # what is loaded at first is loaded
        before = {key: redis_client.dump(key) for key in redis_client.keys("*")}
        text(chief.get(url(feed)))
        text(chief.get(url(feed, "jobs/enqueue/")))
        assert before == {key: redis_client.dump(key) for key in redis_client.keys("*")}


class TestEnqueueing:
    def test_puts_a_job(self, chief, feed) -> None:
        response = chief.post(
            url(feed, "jobs/enqueue/"),
            {
                "job": "log_in",
                "arguments": '["ann", {"$date": "2030-01-31"}]',
                "keywords": '{"note": {"$dict": {"$a": 1}}}',
                "delay": "60",
            },
        )
        assert response.status_code == 302
        assert response["Location"] == url(feed)
        (jid,) = queues["feeds"].jobs("scheduled")
        handle = jobs[jid]
        assert handle.name == "jobs_app.Feed.log_in"
        envelope = json.loads(handle.data)
        assert envelope["row"] == feed.pk
        assert envelope["args"] == ["ann", {"$date": date(2030, 1, 31).isoformat()}]
        assert envelope["kwargs"] == {"note": {"$dict": {"$a": 1}}}
        page = text(chief.get(response["Location"]))
        assert f"Enqueued jobs_app.Feed.log_in as job {jid}" in page

    def test_leaves_entries_in_the_log(self, chief, feed) -> None:
        chief.post(url(feed, "jobs/enqueue/"), {"job": "merge", "arguments": "[1]"})
        (jid,) = queues["default"].jobs("waiting")
        entries = {str(each.object_id): each for each in LogEntry.objects.all()}
        assert entries.keys() == {str(feed.pk), jid}
        assert jid in entries[str(feed.pk)].change_message
        assert entries[jid].content_type.model == "job"
        assert "merge" in text(chief.get(url(feed, "history/")))

    def test_secrets_are_in_no_message(self, chief, feed) -> None:
        data = {"job": "log_in", "arguments": '["ann", "hunter2"]'}
        response = chief.post(url(feed, "jobs/enqueue/"), data)
        page = text(chief.get(response["Location"]))
        assert "hunter2" not in page
        assert not LogEntry.objects.filter(change_message__contains="hunter2")

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            ({"job": "rename"}, "rename(title: &#x27;str&#x27;)"),
            ({"job": "rename"}, "missing a required argument"),
            ({"job": "rename", "arguments": "[1, 2]"}, "too many positional"),
            ({"job": "rename", "keywords": '{"x": 1}'}, "missing a required arg"),
            ({"job": "rename", "arguments": "[1"}, "This is not JSON: Expecting"),
            ({"job": "rename", "arguments": "{}"}, "Enter a JSON list"),
            ({"job": "rename", "keywords": "[]"}, "Enter a JSON object"),
            ({"job": "rename", "keywords": "[" * 9999}, "This is not JSON"),
            ({"job": "count_words", "arguments": '["a"]'}, "Select a valid choice"),
            ({"job": "delete"}, "Select a valid choice"),
            ({}, "This field is required"),
            ({"job": "my_jid", "delay": "-1"}, "greater than or equal to 0"),
            ({"job": "my_jid", "delay": "nan"}, "Enter a number"),
            (
                {"job": "merge", "arguments": '[{"$decimal": "x"}]'},
                "cannot be read",
            ),
            ({"job": "merge", "arguments": '[{"$date": 5}]'}, "cannot be read"),
            ({"job": "merge", "arguments": '[{"$x": 5}]'}, "cannot read a"),
            (
                {"job": "merge", "arguments": '[{"$model": "jobs_app.Feed", "pk": 0}]'},
                "jobs_app.Feed 0 is gone",
            ),
            (
                {"job": "merge", "arguments": '[{"$model": "os.path", "pk": 0}]'},
                "os.path is not a model",
            ),
        ],
    )
    def test_mistakes_are_told(self, chief, feed, data, words, redis_client) -> None:
        before = redis_client.dbsize()
        response = chief.post(url(feed, "jobs/enqueue/"), data)
        assert response.status_code == 400
        assert words in response.content.decode()
        assert redis_client.dbsize() == before
        assert not LogEntry.objects.exists()

    def test_too_much_is_refused(self, chief, feed) -> None:
        data = {"job": "rename", "arguments": json.dumps(["x" * 600_000])}
        response = chief.post(url(feed, "jobs/enqueue/"), data)
        assert response.status_code == 409
        assert "and a job carries at most" in response.content.decode()

    def test_asks_first(self, chief, feed) -> None:
        page = text(chief.get(url(feed, "jobs/enqueue/", job="merge")))
        assert '<option value="merge" selected>merge(other)</option>' in page
        assert url(feed) in page
        assert not queues.counts()

    def test_goes_back_to_where_it_came_from(self, chief, feed) -> None:
        data = {"job": "my_jid", "next": "/shop/"}
        assert chief.post(url(feed, "jobs/enqueue/"), data)["Location"] == "/shop/"
        data["next"] = "https://example.org/"
        assert chief.post(url(feed, "jobs/enqueue/"), data)["Location"] == url(feed)

    def test_a_unique_job_that_waits_already(self, chief) -> None:
        source = Source.objects.create(title="a")
        path = "/shop/rows_app/source/"
        waiting = source.own.delay()
        with plain_shop(Source):
            answer = chief.post(f"{path}{source.pk}/jobs/enqueue/", {"job": "own"})
            page = text(chief.get(answer["Location"]))
        words = f"The job {waiting.name} is already enqueued, as {waiting.jid}"
        assert words in page
        assert [entry.change_message for entry in LogEntry.objects.all()] == [words]
        assert len(queues["sources"].jobs("waiting")) == 1

    def test_within_a_transaction(self, chief, feed, monkeypatch) -> None:
        monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
        answer = chief.post(url(feed, "jobs/enqueue/"), {"job": "my_jid"})
        assert answer.status_code == 302
        (jid,) = queues["default"].jobs("waiting")
        assert (
            f"The job jobs_app.Feed.my_jid will be enqueued when the transaction "
            f"commits, as {jid}"
        ) in text(chief.get(answer["Location"]))

    def test_an_object_that_is_missing(self, chief) -> None:
        response = chief.get("/shop/jobs_app/feed/0/jobs/enqueue/")
        assert response.status_code == 404
        page = response.content.decode()
        assert "There is no feed “0”" in page
        assert '<a href="/shop/jobs_app/feed/">Feeds</a>' in page


class TestAModelWithoutJobs:
    """Its ModelAdmin has the mixin all the same."""

    @pytest.fixture
    def path(self) -> Any:
        with plain_shop(Group):
            yield f"/shop/auth/group/{Group.objects.create(name='g').pk}/jobs/"

    def test_has_an_empty_page(self, chief, path, feed) -> None:
        feed.rename.delay("x")
        page = text(chief.get(path))
        assert "0 found; scanned 0 of 0" in page
        assert "qless-selection" not in page

    def test_has_nothing_to_enqueue(self, chief, path) -> None:
        response = chief.get(f"{path}enqueue/")
        assert response.status_code == 404
        assert "No method of this model is a job" in response.content.decode()
        assert chief.post(f"{path}enqueue/", {"job": "x"}).status_code == 400


class TestPermissions:
    PAGE = ("view", "view_feed")

    def test_seeing(self, feed) -> None:
        assert "0 found" in text(browser(*self.PAGE).get(url(feed)))

    @pytest.mark.parametrize("held", [("view",), ("view_feed",), ()])
    def test_not_seeing(self, feed, held) -> None:
        assert browser(*held).get(url(feed)).status_code == 403

    def test_enqueueing(self, feed) -> None:
        client = browser(*self.PAGE, "act_on_jobs", "change_feed")
        assert "Enqueue my_jid" in text(client.get(url(feed)))
        path = url(feed, "jobs/enqueue/")
        assert client.post(path, {"job": "my_jid"}).status_code == 302

    @pytest.mark.parametrize("lacking", ["view", "act_on_jobs", "change_feed"])
    def test_not_enqueueing(self, feed, lacking) -> None:
        held = {"view", "view_feed", "act_on_jobs", "change_feed"} - {lacking}
        client = browser(*held)
        if lacking != "view":
            assert "Enqueue my_jid" not in text(client.get(url(feed)))
        for answer in (
            client.get(url(feed, "jobs/enqueue/")),
            client.post(url(feed, "jobs/enqueue/"), {"job": "my_jid"}),
        ):
            assert answer.status_code == 403
        assert not queues.counts()

    def test_nobody(self, feed) -> None:
        for path in (url(feed), url(feed, "jobs/enqueue/")):
            assert Client().get(path)["Location"].startswith("/shop/login/")

    def test_csrf(self, feed) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(User.objects.create_superuser("chief"))
        answer = client.post(url(feed, "jobs/enqueue/"), {"job": "my_jid"})
        assert answer.status_code == 403
        assert not queues.counts()

    def test_only_gets_see(self, chief, feed) -> None:
        assert chief.post(url(feed)).status_code == 405


def quoted(jid: str) -> str:
    return jid.replace("_", "_5F")
