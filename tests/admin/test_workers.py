"""Workers: what is shown of them, and what can be asked of one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry

from django_qless.admin.actions.workers import AllWorkersAction
from django_qless.admin.links import quote
from django_qless.core import Settlement
from tests.admin.reading import read
from tests.admin.stock import put
from tests.core.keyspace import digest
from tests.real_servers import poll
from tests.worker.processes import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis
    from django.http import HttpResponse
    from django.test import Client as Browser

    from django_qless.core import Client
    from tests.real_servers import Server

LIST = "/admin/django_qless/worker/"
TABLE = "Workers, the latest heartbeat first"

SAID = {
    "host": "web-1",
    "pid": 4711,
    "pool": "prefork",
    "concurrency": 4,
    "reserver": "ordered",
    "queues": ["mail", "imp*"],
    "exclude": ["import-slow"],
    "state": "running",
    "memory": 5 * 1024 * 1024,
    "processes": 5,
}

pytestmark = pytest.mark.django_db


def beat(client: Client, name: str = "w1", **said: Any) -> None:
    client.beat(name, json.dumps({**SAID, **said}), [])


def make_silent(client: Client, name: str, seconds: float) -> None:
    """Let a worker's last sign of life be so long ago."""
    client.redis.zincrby("ql:workers", -seconds, name)


def hold(client: Client, worker: str, *jids: str) -> None:
    """Let a worker hold these new jobs."""
    put(client, "mail", *jids)
    held = client.settle(worker, [], len(jids), ["mail"]).jobs
    assert {job.jid for job in held} == set(jids)


def url(name: str = "w1", verb: str = "change") -> str:
    return f"{LIST}{quote(name)}/{verb}/"


def act(browser: Browser, address: str) -> str:
    """Do what the page at this address asks about; return what is said then."""
    response = browser.post(address, follow=True)
    (message,) = (str(each) for each in response.context["messages"])
    assert message in read(response).text
    return message


def orders(client: Client, worker: str = "w1") -> list[str]:
    """Return what the worker is told with its next beat."""
    return list(client.beat(worker, "", []).orders)


class TestList:
    def test_it_says_all_that_workers_say(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        beat(qless)
        hold(qless, "w1", "a")
        head, row = read(admin_browser.get(LIST)).table(TABLE)
        said = dict(zip(head, row, strict=True))
        assert said["Worker"] == "w1"
        assert said["State"] == "running"
        assert said["Last heartbeat"].endswith("ago")
        assert said["Running"].startswith("shop.Send")
        assert said["Queues"] == "mail , imp* except import-slow"
        assert said["Pool"] == "prefork × 4"
        assert said["Host"] == "web-1"
        assert said["Pid"] == "4711"
        assert said["Memory"] == "5.0 MB"

    def test_jobs_are_shown_with_their_time_and_the_rest_is_counted(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        beat(qless)
        hold(qless, "w1", *"abcde")
        (row,) = read(admin_browser.get(LIST)).table(TABLE)[1:]
        assert row[3].count("shop.Send") == 3
        assert row[3].endswith("and 2 more")

    def test_a_stalled_job_is_marked(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        beat(qless)
        qless.config_set("mail-heartbeat", -1)  # locks have expired when they begin
        hold(qless, "w1", "a")
        (row,) = read(admin_browser.get(LIST)).table(TABLE)[1:]
        assert "stalled" in row[3]

    def test_a_silent_one_is_marked(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        beat(qless, "w1")
        beat(qless, "w2")
        make_silent(qless, "w1", 300)
        rows = read(admin_browser.get(LIST)).table(TABLE)[1:]
        assert [(row[0], row[1]) for row in rows] == [
            ("w2", "running"),
            ("w1", "silent"),
        ]
        assert rows[1][2] == "5 min ago"

    @pytest.mark.parametrize("state", ["quiet", "draining", "stopping"])
    def test_its_state(self, qless: Client, admin_browser: Browser, state: str) -> None:
        beat(qless, state=state)
        (row,) = read(admin_browser.get(LIST)).table(TABLE)[1:]
        assert row[1] == state

    def test_another_clients_worker_says_nothing_of_itself(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        qless.beat("ruby", "", [])
        (row,) = read(admin_browser.get(LIST)).table(TABLE)[1:]
        assert row[:2] == ["ruby", "alive"]

    def test_what_a_worker_says_is_not_believed(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        said = {"host": {"a": 1}, "pid": "<b>", "queues": "mail", "memory": "much"}
        beat(qless, **said, state=["x"], exclude=7, concurrency=[], pool="<i>p</i>")
        response = admin_browser.get(LIST)
        (row,) = read(response).table(TABLE)[1:]
        assert row[0] == "w1"
        assert "<i>p" not in response.content.decode()
        read(admin_browser.get(url()))
        read(admin_browser.get("/admin/django_qless/overview/"))

    def test_many_are_paged(self, qless: Client, admin_browser: Browser) -> None:
        for number in range(53):
            beat(qless, f"w{number:02}")
        page = read(admin_browser.get(LIST))
        assert len(page.table(TABLE)) == 1 + 50
        rest = read(admin_browser.get(page.links()["Next"]))
        assert len(rest.table(TABLE)) == 1 + 3

    def test_without_workers_it_says_how_to_start_one(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        assert "manage.py qless_worker" in read(admin_browser.get(LIST)).text
        other = read(admin_browser.get(LIST, {"alias": "other"})).text
        assert "manage.py qless_worker --alias other" in other


class TestPage:
    def test_it_shows_the_worker_and_its_jobs(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        beat(qless)
        hold(qless, "w1", "a", "b")
        page = read(admin_browser.get(url()))
        facts = page.facts()
        assert facts["State"] == "running"
        assert facts["Host"] == "web-1"
        assert facts["Process"] == "4711"
        assert facts["Pool"] == "prefork × 4"
        assert facts["Order of queues"] == "ordered"
        assert facts["Queues"] == "mail , imp* except import-slow"
        assert facts["Memory"].startswith("5.0 MB in 5 processes")
        assert facts["Running"] == "2"
        rows = page.table("Jobs of this worker")[1:]
        assert {row[1].split()[-1] for row in rows} == {"a", "b"}
        assert all(row[3].startswith("for ") for row in rows)

    def test_one_whose_sign_of_life_is_late(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        for seconds, words in ((0, "running"), (16, "late"), (45, "silent")):
            beat(qless, "w1")
            make_silent(qless, "w1", seconds + (16 if words == "silent" else 0))
            colour = {"running": "good", "late": "warn", "silent": "bad"}[words]
            badge = f'<span class="qless-badge qless-{colour}">{words}</span>'
            assert badge in admin_browser.get(LIST).content.decode()
            assert badge in admin_browser.get(url()).content.decode()
        beat(qless, "w1")
        make_silent(qless, "w1", 16)
        overview = read(admin_browser.get("/admin/django_qless/overview/"))
        assert overview.facts()["of them late"] == "1"
        # Another qless client's does not say how often it gives one.
        qless.redis.zadd("ql:workers", {"w2": qless.redis.time()[0] - 30})
        rows = read(admin_browser.get(LIST)).table(TABLE)[1:]
        assert {row[0]: row[1] for row in rows} == {"w1": "late", "w2": "alive"}

    def test_one_that_has_ended_and_holds_jobs(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        hold(qless, "w1", "a")
        qless.deregister("w1")
        link = read(admin_browser.get("/admin/django_qless/job/")).links()["w1"]
        page = read(admin_browser.get(link))
        assert page.facts()["State"].startswith("ended")
        assert page.facts()["Last heartbeat"] == "not known"
        assert [
            row[1].split()[-1] for row in page.table("Jobs of this worker")[1:]
        ] == ["a"]
        assert buttons_of(admin_browser.get(link)) == []

    @pytest.mark.parametrize("name", ["w1", "<script>x</script>", "a/b"])
    def test_one_that_has_ended_and_left_nothing_but_links(
        self,
        qless: Client,
        redis_client: redis.Redis,
        admin_browser: Browser,
        name: str,
    ) -> None:
        put(qless, "mail", "a")
        [held] = qless.settle(name, [], 1, ["mail"]).jobs
        qless.settle(name, [Settlement("a", held.token, "complete")], 0, ["-"])
        qless.deregister(name)
        page = read(admin_browser.get("/admin/django_qless/job/a/change/"))
        before = digest(redis_client)
        response = admin_browser.get(page.links()[name])
        assert "no longer running" in read(response).facts()["State"]
        assert "<script>x" not in response.content.decode()
        assert buttons_of(response) == []
        assert digest(redis_client) == before

    @pytest.mark.parametrize(
        "name", ["a/b", "a b", "ä", "<script>", "..", "a?b#c", "a_2Fb", "%2F"]
    )
    def test_any_name_has_a_page(
        self, qless: Client, admin_browser: Browser, name: str
    ) -> None:
        beat(qless, name)
        address = read(admin_browser.get(LIST)).links()[name]
        page = read(admin_browser.get(address))
        assert page.facts()["Host"] == "web-1"
        act(admin_browser, url(name, "quiet"))
        assert orders(qless, name) == ["quiet"]

    def test_buttons_are_those_that_make_sense(
        self, qless: Client, as_user: Callable[[str], Browser]
    ) -> None:
        browser = as_user("view+act_on_workers")
        for state, buttons in {
            "running": ["Quiet", "Stop"],
            "quiet": ["Resume", "Stop"],
            "stopping": ["Stop"],
        }.items():
            beat(qless, state=state)
            assert buttons_of(browser.get(url())) == buttons
        make_silent(qless, "w1", 300)
        assert buttons_of(browser.get(url())) == ["Forget"]
        assert buttons_of(as_user("view").get(url())) == []


def buttons_of(response: HttpResponse) -> list[str]:
    """Return the words of the buttons on a page."""
    return [
        each.text
        for box in read(response).root.all("div")
        if box.attributes.get("class") == "qless-buttons"
        for each in [*box.all("button"), *box.all("a")]
    ]


class TestActions:
    @pytest.mark.parametrize("verb", ["quiet", "resume", "stop"])
    def test_an_order_is_left_for_the_worker(
        self, qless: Client, admin_browser: Browser, verb: str
    ) -> None:
        beat(qless)
        assert "w1" in read(admin_browser.get(url(verb=verb))).text
        assert orders(qless) == []  # to ask is not to do
        message = act(admin_browser, url(verb=verb))
        assert "w1" in message
        assert orders(qless) == [verb]
        entry = LogEntry.objects.get()
        assert entry.object_id == "w1"
        assert entry.change_message == message
        assert entry.content_type.model == "worker"  # type: ignore[union-attr]

    def test_after_a_stop_the_page_to_come_back_to_is_still_there(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        beat(qless)
        assert admin_browser.post(url(verb="stop")).headers["Location"] == LIST

    @pytest.mark.parametrize("verb", ["quiet", "resume", "stop", "forget"])
    def test_one_that_is_gone_is_told(
        self, qless: Client, admin_browser: Browser, verb: str
    ) -> None:
        text = read(admin_browser.post(url("nobody", verb)), 409).text
        assert "nobody" in text
        assert not LogEntry.objects.exists()

    def test_a_silent_one_is_forgotten(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        beat(qless)
        make_silent(qless, "w1", 300)
        assert (
            act(admin_browser, url(verb="forget")) == "Removed worker w1 from the list."
        )
        assert qless.workers() == []

    def test_a_living_one_is_not_forgotten(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        beat(qless)
        text = read(admin_browser.post(url(verb="forget")), 409).text
        assert "sent a heartbeat" in text
        assert len(qless.workers()) == 1

    @pytest.mark.parametrize("verb", ["quiet", "resume", "stop"])
    def test_all_that_are_alive_are_asked(
        self, qless: Client, admin_browser: Browser, verb: str
    ) -> None:
        for name in ("w1", "w2", "w3"):
            beat(qless, name)
        make_silent(qless, "w3", 300)
        address = read(admin_browser.get(LIST)).links()[f"{verb.capitalize()} all"]
        assert "all 2 workers" in read(admin_browser.get(address)).text
        assert orders(qless) == []
        assert act(admin_browser, address).startswith("Asked 2 workers")
        entry = LogEntry.objects.get()
        assert (entry.object_id, entry.object_repr) == (None, "all workers")
        assert [orders(qless, name) for name in ("w1", "w2")] == [[verb], [verb]]
        assert orders(qless, "w3") == []
        assert LogEntry.objects.count() == 1

    def test_one_that_ends_meanwhile_is_not_counted(
        self, qless: Client, admin_browser: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listed = AllWorkersAction.alive

        def alive(self: AllWorkersAction) -> list[str]:
            names = listed(self)
            qless.deregister("w1")
            return names

        for name in ("w1", "w2"):
            beat(qless, name)
        monkeypatch.setattr(AllWorkersAction, "alive", alive)
        assert act(admin_browser, f"{LIST}quiet_all/") == "Asked 1 worker: quiet all."
        assert orders(qless, "w2") == ["quiet"]

    @pytest.mark.parametrize(
        "kind", ["view", "act_on_workers", "view+act_on_jobs", "view+act_on_queues"]
    )
    def test_who_may_not(
        self, qless: Client, as_user: Callable[[str], Browser], kind: str
    ) -> None:
        beat(qless)
        browser = as_user(kind)
        verbs = ("quiet", "resume", "stop", "forget")
        addresses = [url(verb=verb) for verb in verbs]
        addresses += [f"{LIST}{verb}_all/" for verb in ("quiet", "resume", "stop")]
        for address in addresses:
            assert browser.get(address).status_code == 403
            assert browser.post(address).status_code == 403
        assert orders(qless) == []

    def test_of_another_alias(self, qless: Client, admin_browser: Browser) -> None:
        beat(qless)
        act(admin_browser, f"{url(verb='quiet')}?alias=default")
        assert orders(qless) == ["quiet"]
        response = admin_browser.post(f"{url(verb='quiet')}?alias=other")
        assert "w1" in read(response, 409).text


class TestRealWorker:
    """What a worker of this package says of itself, and how it obeys."""

    @pytest.fixture
    def worker(self, server: Server, qless: Client, tmp_path: Path) -> Any:
        process = WorkerProcess(
            server.url, tmp_path / "worker.log", queues=["q"], name="w1", concurrency=2
        )
        poll(lambda: qless.workers(), what="it beats")
        yield process
        process.close()

    def test_the_pages_follow_it(
        self, qless: Client, worker: WorkerProcess, admin_browser: Browser
    ) -> None:
        def shows(state: str) -> bool:
            (row,) = read(admin_browser.get(LIST)).table(TABLE)[1:]
            return row[1] == state

        poll(lambda: shows("running"), what="it is shown as running")
        facts = read(admin_browser.get(url())).facts()
        assert facts["Process"] == str(worker.pid)
        assert " process" in facts["Memory"]
        act(admin_browser, url(verb="quiet"))
        poll(lambda: shows("quiet"), what="it is quiet")
        act(admin_browser, url(verb="resume"))
        poll(lambda: shows("running"), what="it goes on")
        act(admin_browser, url(verb="stop"))
        assert worker.wait() == 0
        assert "No worker has sent" in read(admin_browser.get(LIST)).text
