"""The overview: what an operator sees first."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from tests.admin.reading import read
from tests.admin.stock import put
from tests.real_servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client
    from tests.admin.content import Content

URL = "/admin/django_qless/overview/"
QUEUES = "Queues, the greatest lag first"
GROUPS = "The largest failure groups"
SCHEDULES = "Recurring jobs, the next first"

pytestmark = pytest.mark.django_db


def beat(client: Client, name: str, **said: Any) -> None:
    client.beat(name, json.dumps({"queues": ["*"], "state": "running", **said}), [])


def make_silent(client: Client, name: str, seconds: float) -> None:
    """Let a worker's last sign of life be so long ago."""
    client.redis.zincrby("ql:workers", -seconds, name)


class TestQueues:
    def test_each_state_is_counted_by_queue_and_in_total(
        self, qless: Client, content: Content, admin_browser: Browser
    ) -> None:
        head, total, *rows = read(admin_browser.get(URL)).table(QUEUES)
        assert head[2:] == [
            *("Waiting", "Running", "Stalled", "Scheduled", "Depends", "Recurring"),
            *("Failed", "Retried attempts today", "Locks lost today"),
        ]
        expected = {each.name: each for each in qless.queues()}
        assert len(rows) == len(expected)
        for row in rows:
            name = next(each for each in expected if row[0].startswith(each))
            counts = expected[name]
            (failed,) = qless.failed_of([name])
            (recurring,) = qless.recurring_of([name])
            numbers = (counts.waiting, counts.running, counts.stalled)
            numbers += (counts.scheduled, counts.depends, recurring)
            now = float(qless.meta()["now"])
            [today] = qless.stats_counters(now, [name])
            numbers += (failed, today.retried, today.retries)
            assert row[2:] == [str(number) for number in numbers]
        assert total[0] == f"All {len(rows)} queues"
        for column in range(2, len(head)):
            assert int(total[column]) == sum(int(row[column]) for row in rows)
        failed = int(total[head.index("Failed")])
        assert failed == sum(qless.failed().values()) > 0

    def test_what_was_retried_and_lost_today(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        put(qless, "mail", "a")
        put(qless, "import", "b")
        today = int(float(qless.meta()["now"])) // 86400 * 86400
        for queue, retried, lost in (("mail", 2, 5), ("import", 1, 0)):
            counted = {"retried": retried, "retries": lost}
            qless.redis.hset(f"ql:s:stats:{today}:{queue}", mapping=counted)
        head, *rows = read(admin_browser.get(URL)).table(QUEUES)
        at = head.index("Retried attempts today")
        assert head[at + 1] == "Locks lost today"
        assert {row[0].split()[0]: row[at : at + 2] for row in rows} == {
            "All": ["3", "5"],
            "mail": ["2", "5"],
            "import": ["1", "0"],
        }

    def test_the_longest_delayed_is_first_and_in_the_headline(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        put(qless, "calm", "a")
        put(qless, "busy", "b")
        qless.redis.hset("ql:j:b", "time", 0)
        lags = dict(zip(["calm", "busy"], qless.lag(["calm", "busy"]), strict=True))
        slow, fast = sorted(lags, key=lambda name: -lags[name])
        _head, _total, *rows = read(admin_browser.get(URL)).table(QUEUES)
        assert [row[0].split()[0] for row in rows] == [slow, fast]

    def test_numbers_lead_to_what_they_count(
        self, qless: Client, content: Content, admin_browser: Browser
    ) -> None:
        links = [
            each.attributes["href"]
            for each in read(admin_browser.get(URL)).root.all("a")
        ]
        queue = "/admin/django_qless/queue/mail/change/"
        assert queue in links
        assert f"{queue}?tab=running" in links
        assert "/admin/django_qless/job/?queue=mail&state=failed" in links

    def test_a_paused_queue_says_why(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        put(qless, "mail", "a")
        qless.pause(["mail"], reason="the provider is down", by="ann")
        (row,) = read(admin_browser.get(URL)).table(QUEUES)[2:]
        assert row[0] == "mail paused the provider is down"

    def test_a_queue_that_nobody_serves_says_so(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        put(qless, "mail", "a")
        put(qless, "import", "b")
        words = "no worker takes its jobs"
        beat(qless, "w1", queues=["imp*"])
        rows = {row[0] for row in read(admin_browser.get(URL)).table(QUEUES)[2:]}
        assert rows == {f"mail {words}", "import"}
        beat(qless, "w2", state="quiet")
        rows = {row[0] for row in read(admin_browser.get(URL)).table(QUEUES)[2:]}
        assert rows == {f"mail {words}", "import"}
        beat(qless, "w3")
        assert words not in read(admin_browser.get(URL)).text
        make_silent(qless, "w3", 61)
        assert words in read(admin_browser.get(URL)).text

    def test_many_queues_are_paged(self, qless: Client, admin_browser: Browser) -> None:
        for number in range(52):
            put(qless, f"queue-{number:02}", f"jid-{number}")
        page = read(admin_browser.get(URL))
        assert len(page.table(QUEUES)) == 2 + 40
        assert "1–40 of 52" in page.text
        rest = read(admin_browser.get(page.links()["Next"]))
        assert len(rest.table(QUEUES)) == 2 + 12
        # The total is of all, wherever one is.
        assert rest.table(QUEUES)[1][0] == "All 52 queues"

    def test_an_empty_namespace_says_what_to_expect(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        text = read(admin_browser.get(URL)).text
        assert "No job has been enqueued yet" in text
        assert "No job has failed." in text
        assert "No recurring job is due" in text


class TestTheRest:
    def test_throughput_counts_what_was_done(
        self, qless: Client, content: Content, admin_browser: Browser
    ) -> None:
        qless.beat("web-1-4711-aa", "", [])  # which writes what was counted
        page = read(admin_browser.get(URL))
        for title in ("The last hour", "The last day"):
            rows = page.table(title)[1:]
            assert sum(int(row[-2]) for row in rows) == 1, title
            # Two jobs, and an entity whose payload died.
            assert sum(int(row[-1]) for row in rows) == 3, title

    def test_failure_groups_and_their_samples(
        self,
        qless: Client,
        content: Content,
        as_user: Callable[[str], Browser],
    ) -> None:
        page = read(as_user("view+view_data").get(URL))
        rows = page.table(GROUPS)[1:]
        assert {row[0].split()[0] for row in rows} == {"ValueError-mail", "group"}
        assert "message 2 of a job" in page.text
        # Of a traceback that is its last line: what is wrong, not where.
        assert "Declined: insufficient funds" in page.text
        assert "Traceback" not in page.text
        # An error may hold data.
        hidden = read(as_user("view").get(URL))
        assert "ValueError-mail" in hidden.text
        assert "message 2 of a job" not in hidden.text

    def test_a_group_can_be_retried_from_here(
        self,
        qless: Client,
        content: Content,
        as_user: Callable[[str], Browser],
    ) -> None:
        browser = as_user("view+act_on_jobs")
        links = read(browser.get(URL)).root.all("a")
        (address,) = (
            each.attributes["href"]
            for each in links
            if each.attributes.get("aria-label") == "Retry all of ValueError-mail"
        )
        assert "ValueError-mail" in read(browser.get(str(address))).text
        assert "Retry all" not in read(as_user("view").get(URL)).text

    def test_workers_alive_and_silent(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        beat(qless, "w1", memory=2 * 1024 * 1024)
        beat(qless, "w2", state="quiet", memory=1024 * 1024)
        beat(qless, "w3")
        make_silent(qless, "w3", 3600)
        page = read(admin_browser.get(URL))
        words = page.section("Workers")
        assert "Alive 2 " in words
        assert "of them quiet 1 " in words
        assert "Silent 1 " in words
        assert "3.0\xa0MB" in words.replace("3.0 MB", "3.0\xa0MB")
        assert "w3 : silent for 1 h" in words
        assert page.links()["w3"] == "/admin/django_qless/worker/w3/change/"

    def test_what_recurs_next(
        self, qless: Client, content: Content, admin_browser: Browser
    ) -> None:
        rows = read(admin_browser.get(URL)).table(SCHEDULES)[1:]
        assert rows[0][0] == "The nightly report every 10 minutes"
        assert rows[0][1].startswith("in ")
        # A paused one is not due; one by cron is when a worker has worked it out.
        assert len(rows) == 1

    def test_the_server(self, qless: Client, admin_browser: Browser) -> None:
        facts = read(admin_browser.get(URL)).facts()
        info = qless.server_info()
        text = read(admin_browser.get(URL)).section("Server")
        assert f"Valkey {info['valkey_version']}" in text
        assert "without a limit" in text
        assert "noeviction" in text
        assert "no append-only file" in text
        assert facts

    def test_a_server_with_a_snapshot(
        self, server: Server, qless: Client, as_user: Callable[[str], Browser]
    ) -> None:
        browser = as_user("view")
        alias = {"LOCATION": server.url}
        with override_settings(QLESS={"default": alias}):
            assert "no snapshot yet" in read(browser.get(URL)).section("Server")
            server.client().save()
            shown = read(browser.get(URL)).section("Server")
        assert re.search(r"no append-only file; last snapshot [^;]+ ago", shown)


class TestDangers:
    def test_the_tests_own_server_keeps_nothing_and_the_page_warns(
        self, qless: Client, admin_browser: Browser
    ) -> None:
        text = read(admin_browser.get(URL)).text
        assert "This server is not safe for jobs." in text
        assert "Set appendonly to yes" in text

    def test_a_safe_server_is_called_safe(
        self, db: None, as_user: Callable[[str], Browser]
    ) -> None:
        with (
            Server("valkey", "--appendonly", "yes") as server,
            override_settings(QLESS={"default": {"LOCATION": server.url}}),
        ):
            text = read(as_user("view").get(URL)).text
        assert "not safe" not in text
        assert "Safe for jobs." in text

    def test_eviction_and_a_full_server_are_told(
        self, db: None, as_user: Callable[[str], Browser]
    ) -> None:
        limits = ("--maxmemory-policy", "allkeys-lru", "--maxmemory", "5mb")
        with (
            Server("valkey", *limits) as server,
            override_settings(QLESS={"default": {"LOCATION": server.url}}),
        ):
            page = read(as_user("view").get(URL))
        assert "allkeys-lru: a full server would throw away jobs" in page.text
        assert "of 5.0" in page.section("Server")

    def test_a_user_who_may_not_ask_still_sees_the_queues(
        self, server: Server, qless: Client, as_user: Callable[[str], Browser]
    ) -> None:
        put(qless, "mail", "a")
        admin = server.client()
        rules = ("on", ">x", "~*", "&*", "+@all", "-info")
        admin.execute_command("ACL", "SETUSER", "noinfo", *rules)
        url = server.url.replace("unix://", "unix://noinfo:x@")
        try:
            with override_settings(QLESS={"default": {"LOCATION": url}}):
                page = read(as_user("view").get(URL))
        finally:
            admin.execute_command("ACL", "DELUSER", "noinfo")
        assert page.table(QUEUES)[2][0].startswith("mail")
        assert "The server gives no information" in page.text


class TestAliases:
    def test_page_of_a_lost_server_says_so(
        self, server: Server, as_user: Callable[[str], Browser], tmp_path: Any
    ) -> None:
        aliases = {
            "default": {"LOCATION": f"unix://{tmp_path}/nowhere.sock"},
            "fine": {"LOCATION": server.url},
        }
        browser = as_user("view")
        with override_settings(QLESS=aliases):
            page = read(browser.get(URL))
            parts = browser.get(URL, {"live": "1"}).json()["parts"]
        assert "The server of “default” does not answer." in page.text
        assert "fine" in page.text
        # What is shown of a living server makes room, and comes back with it.
        assert parts["queues"].strip() == ""
        assert "does not answer" in parts["alarms"]


class TestLive:
    def test_the_parts_are_those_of_the_page(
        self, qless: Client, content: Content, admin_browser: Browser
    ) -> None:
        page = read(admin_browser.get(URL))
        named = [
            each.attributes["data-live"]
            for each in page.root.all("div")
            if "data-live" in each.attributes
        ]
        parts = admin_browser.get(URL, {"live": "1"}).json()["parts"]
        assert set(parts) == set(named)
        assert len(named) == len(set(named))
        assert "mail" in parts["queues"]

    def test_ids_are_unique(
        self, qless: Client, content: Content, admin_browser: Browser
    ) -> None:
        text = admin_browser.get(URL).content.decode()
        ids = re.findall(r'\sid="([^"]+)"', text)
        assert len(ids) == len(set(ids))
