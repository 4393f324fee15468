"""The commands with which people look after a namespace."""

from __future__ import annotations

import contextlib
import getpass
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_qless import jobs, queues
from django_qless.conf.config_sync import sync_config
from django_qless.conf.connections import connections
from django_qless.core import Client
from tests.jobs_app import policies
from tests.jobs_app.jobs import add, failing
from tests.permissions import nothing_refused, set_user, url_of
from tests.real_servers import Server


def run(*arguments: str, **options: Any) -> str:
    """Return what a command prints."""
    output = io.StringIO()
    call_command(*arguments, stdout=output, stderr=output, **options)
    return output.getvalue()


def data(*arguments: str) -> Any:
    """Return what a command prints as JSON."""
    return json.loads(run(*arguments, "--json"))


@pytest.fixture
def qless(server: Server) -> Iterator[Client]:
    """The client of the default alias, as the documented operator has it."""
    alias = {"LOCATION": url_of(server, "operator")}
    with nothing_refused(server), override_settings(QLESS={"default": alias}):
        yield connections["default"]
    set_user(server, "operator")


@pytest.fixture(autouse=True)
def people(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is answered to each question; without an answer there must be none."""
    answers: list[str] = []
    monkeypatch.setattr("builtins.input", lambda question: answers.pop(0))
    return answers


class TestJobs:
    def test_list(self, qless) -> None:
        assert "no jobs" in run("qless_jobs", "list")
        add.using(queue="mail", jid="one", tags=["t"]).delay(1)
        add.using(queue="bulk", jid="two").delay(1)
        assert "one" in run("qless_jobs", "list", "--queue", "mail")
        assert "two" not in run("qless_jobs", "list", "--queue", "mail")
        text = run("qless_jobs", "list", "--count", "1")
        assert "examined 1 of 2; continue with --offset 1" in text
        page = data("qless_jobs", "list", "--tag", "t")
        assert [job["jid"] for job in page["jobs"]] == ["one"]

    def test_show(self, qless, work) -> None:
        handle = add.using(tags=["t"]).delay(20, 1)
        work()
        text = run("qless_jobs", "show", handle.jid)
        assert "complete" in text
        assert '"args":[20,1]' in text
        assert "result:       21" in text
        assert data("qless_jobs", "show", handle.jid)["result"] == 21
        broken = failing.delay("broken", "the text")
        work()
        text = run("qless_jobs", "show", broken.jid)
        assert "failed in 'broken'" in text
        assert "  the text" in text
        with pytest.raises(CommandError, match="There is no job 'nobody'"):
            run("qless_jobs", "show", "nobody")

    def test_show_has_the_attempts(self, qless, work) -> None:
        handle = policies.retries_some.delay("Flaky")
        work()
        [first, second, third] = [
            line
            for line in run("qless_jobs", "show", handle.jid)
            .partition("attempts:\n")[2]
            .splitlines()
            if "  waited " in line
        ]
        assert first.startswith("  1  ")
        for line, end in ((first, "retried"), (second, "retried"), (third, "failed")):
            assert re.search(
                rf"  waited \S+ m?s  ran \S+ m?s  {end}  .*Flaky: again", line
            )

    def test_what_was_canceled_is_listed_and_shown(self, qless) -> None:
        first = add.using(queue="mail", delay=60).delay(20, 1)
        second = add.using(queue="mail", after=[first], on_failure="cancel").delay(2)
        kept = add.using(queue="mail").delay(3)
        first.cancel()
        page = data("qless_jobs", "list", "--state", "canceled", "--queue", "mail")
        assert {job["jid"] for job in page["jobs"]} == {second.jid, first.jid}
        assert [job["state"] for job in page["jobs"]] == ["canceled"] * 2
        text = run("qless_jobs", "list")
        assert kept.jid in text and first.jid not in text
        text = run("qless_jobs", "show", first.jid)
        assert '"args":[20,1]' in text and "when it was scheduled\n" in text
        text = run("qless_jobs", "show", second.jid)
        assert f"when it was depends, because of dependency {first.jid}" in text
        shown = data("qless_jobs", "show", second.jid)["canceled"]
        assert (shown["was"], shown["by"]) == ("depends", first.jid)
        assert data("qless_jobs", "show", kept.jid)["canceled"] is None
        for word in ("cancel", "retry"):
            with pytest.raises(CommandError, match="invalid choice: 'canceled'"):
                run("qless_jobs", word, "--state", "canceled", "--no-input")

    def test_of_what_is_long_the_size_is_shown(self, qless) -> None:
        handle = add.delay("x" * 20_000)
        handle.cancel()
        assert "bytes, not kept" in run("qless_jobs", "show", handle.jid)

    def test_retry_one_or_a_group(self, qless, work, people) -> None:
        handles = failing.enqueue_many([failing.args("broken", "x") for _ in range(3)])
        work()
        text = run("qless_jobs", "retry", handles[0].jid, "nobody")
        assert "retried: 1 job; 1 had not failed" in text
        people.append("y")
        assert "2 jobs" in run("qless_jobs", "retry", "--group", "broken")
        assert qless.failed() == {}

    def test_cancel_asks_before_many(self, qless, people) -> None:
        add.enqueue_many([add.args(1) for _ in range(3)])
        people.append("")
        with pytest.raises(CommandError, match="Nothing was changed"):
            run("qless_jobs", "cancel", "--queue", "default")
        assert queues["default"].length() == 3
        text = run("qless_jobs", "cancel", "--queue", "default", "--no-input")
        assert "canceled: 3 jobs" in text
        assert queues["default"].length() == 0

    def test_where_nobody_can_be_asked_nothing_is_done(
        self, qless, monkeypatch
    ) -> None:
        def nobody(question: str) -> str:
            raise EOFError

        monkeypatch.setattr("builtins.input", nobody)
        waiting = add.delay(1)
        with pytest.raises(
            CommandError, match=r"standard input is closed.* --no-input"
        ):
            run("qless_jobs", "cancel", "--queue", "default")
        assert waiting.refresh().state == "waiting"

    def test_nothing_is_asked_about_no_jobs(self, qless, monkeypatch) -> None:
        def never(question: str) -> str:
            raise AssertionError(question)

        monkeypatch.setattr("builtins.input", never)
        for line in (
            ("qless_jobs", "retry", "--group", "broken"),
            ("qless_jobs", "cancel", "--queue", "default"),
            ("qless_queue", "empty", "mail", "--state", "waiting"),
        ):
            assert "no jobs match: nothing to do" in run(*line)

    def test_cancel_says_how_many_there_were(self, qless, work) -> None:
        done = add.delay(1)
        work()
        waiting = add.delay(2)
        text = run("qless_jobs", "cancel", done.jid, "nobody", waiting.jid)
        assert "canceled: 1 job\nnot canceled: " in text
        assert "nobody" in text and done.jid in text
        assert done.refresh().state == "complete"
        assert jobs[waiting.jid].state == "canceled"
        text = run("qless_jobs", "cancel", "nobody")
        assert "canceled: 0 jobs\nnot canceled: " in text and "nobody" in text

    def test_which_jobs_must_be_said_once(self, qless) -> None:
        for arguments in ((), ("a-jid", "--tag", "t")):
            with pytest.raises(CommandError, match="either the ids of jobs, or"):
                run("qless_jobs", "cancel", *arguments)

    def test_move(self, qless) -> None:
        handle = add.delay(1)
        run("qless_jobs", "move", "bulk", handle.jid, "--delay", "60")
        assert (handle.refresh().queue, handle.refresh().state) == ("bulk", "scheduled")


class TestQueue:
    def test_list_and_limits(self, qless) -> None:
        add.using(queue="mail").delay(1)
        run("qless_queue", "limit", "mail", "--max-concurrency", "4", "--weight", "0.5")
        text = run("qless_queue", "list")
        assert "mail" in text
        (mail,) = data("qless_queue", "list")
        assert (mail["waiting"], mail["max_concurrency"], mail["weight"]) == (
            *(1, "4", "0.5"),
        )
        with pytest.raises(CommandError, match="at least one of"):
            run("qless_queue", "limit", "mail")

    def test_pause_and_resume(self, qless) -> None:
        run("qless_queue", "pause", "mail", "bulk")
        assert queues["mail"].counts().paused
        run("qless_queue", "resume", "mail", "bulk")
        assert not queues["bulk"].counts().paused
        run("qless_queue", "pause", "mail")
        run("qless_queue", "unpause", "mail")
        assert not queues["mail"].counts().paused

    def test_a_pause_says_why_and_by_whom(self, qless) -> None:
        run("qless_queue", "pause", "mail", "--reason", "a new server")
        pause = queues["mail"].counts().pause
        assert pause.reason == "a new server"
        assert pause.by == getpass.getuser()

    def test_what_others_wait_for_is_left(self, qless) -> None:
        jid = add.using(queue="mail").delay(1).jid
        add.using(queue="mail").delay(1)
        add.using(queue="bulk", after_jids=[jid]).delay(1)
        text = run("qless_queue", "empty", "mail", "--state", "waiting", "--no-input")
        assert "canceled: 1 job\n" in text
        assert f"not canceled: {jid} is a dependency of" in text

    def test_a_long_chain_is_cancelled_whole(self, qless) -> None:
        before: list[str] = []
        for _ in range(300):
            before = [add.using(queue="mail", after_jids=before).delay(1).jid]
        text = run("qless_queue", "empty", "mail", "--state", "depends", "--no-input")
        assert "canceled: 299 jobs" in text
        assert "not canceled" not in text
        assert qless.queue_counts("mail").depends == 0

    def test_empty_then_forget(self, qless) -> None:
        add.using(queue="mail", delay=60).enqueue_many([add.args(1)] * 2)
        with pytest.raises(CommandError, match="mail is in use: 2 scheduled: empty it"):
            run("qless_queue", "forget", "mail")
        text = run("qless_queue", "empty", "mail", "--state", "scheduled", "--no-input")
        assert "canceled: 2 jobs" in text
        run("qless_queue", "forget", "mail")
        assert list(queues) == []


class TestConfig:
    def test_list_says_who_set_what(self, qless, server) -> None:
        declared = {
            "default": {
                "LOCATION": server.url,
                "CONFIG": {"heartbeat": 30},
                "QUEUES": {"mail": {"max_concurrency": 4}},
            }
        }
        with override_settings(QLESS=declared):
            sync_config()
            run("qless_config", "set", "mail-max-concurrency", "9")
            rows = {row["option"]: row for row in data("qless_config", "list")}
            assert rows["heartbeat"]["set by"] == "QLESS"
            assert rows["heartbeat"]["default"] == 60
            assert rows["mail-max-concurrency"]["set by"] == "operator"
            assert rows["grace-period"]["set by"] == ""
            assert all(row["meaning"] for row in rows.values())
            assert "seconds that a lock lasts" in run("qless_config", "list")
            run("qless_config", "reset", "mail-max-concurrency")
            assert run("qless_config", "get", "mail-max-concurrency") == "4\n"
            run("qless_config", "set", "heartbeat", "31")
            run("qless_config", "reset", "--all")
            assert "nothing to do" in run("qless_config", "reset", "--all")
            assert run("qless_config", "get", "heartbeat") == "30\n"
            run("qless_config", "unset", "heartbeat")
            assert run("qless_config", "get", "heartbeat") == "60\n"
            with pytest.raises(CommandError, match="names of options, or --all"):
                run("qless_config", "reset")

    def test_a_typing_mistake_is_refused(self, qless) -> None:
        with pytest.raises(CommandError, match="did you mean jobs-history"):
            run("qless_config", "set", "job-history", "5")
        with pytest.raises(CommandError, match="There is no option 'no'"):
            run("qless_config", "get", "no")
        with pytest.raises(CommandError, match="heartbeat"):
            run("qless_config", "set", "heartbeat", "soon")
        run("qless_config", "set", "colour", "red", "--new")
        assert run("qless_config", "get", "colour") == "red\n"


class TestAudit:
    def test_of_a_sound_namespace(self, qless) -> None:
        add.enqueue_many([add.args(1) for _ in range(30)])
        text = run("qless_audit", "--count", "10")
        assert "no violations" in text

    def test_what_is_wrong_is_said(self, qless, redis_client) -> None:
        handle = add.delay(1)
        redis_client.hset(f"ql:j:{handle.jid}", "state", "running")
        with pytest.raises(CommandError, match="violation"):
            run("qless_audit")


class TestDoctor:
    def findings(self, *arguments: str) -> list[tuple[str, str, str]]:
        """Return what is found, and whether it ends as it should."""
        output = io.StringIO()
        code = 0
        try:
            call_command("qless_doctor", "--json", *arguments, stdout=output)
        except SystemExit as end:
            code = int(str(end.code))
        found = [tuple(each.values()) for each in json.loads(output.getvalue())]
        assert code == any(level == "PROBLEM" for level, _, _ in found)
        return found  # type: ignore[return-value]

    def words(self, *arguments: str) -> str:
        return "\n".join(" ".join(each) for each in self.findings(*arguments))

    def test_what_it_looks_at(self, qless) -> None:
        qless.beat("w1", '{"queues": ["*"], "exclude": []}', [])
        words = self.words()
        assert "fine server" in words
        assert "fine clock" in words
        assert "fine records" in words
        assert "workers alive: 1" in words
        assert "records" not in self.words("--no-audit")

    def test_a_format_that_it_does_not_read(self, qless, redis_client) -> None:
        add.delay(1)
        assert "fine format the namespace has format 1" in self.words()
        redis_client.hset("ql:meta", "format", "2")
        found = self.findings()
        assert [each for each in found if each[0] == "PROBLEM"] == found[-1:]
        assert found[-1][1] == "format"
        assert "stores format 2" in found[-1][2]
        assert "upgrade the workers" in found[-1][2]

    def test_a_clock_that_was_set_back(self, qless, redis_client) -> None:
        add.delay(1)
        redis_client.hset("ql:meta", "skews", "1")
        assert "set back 1 time," in self.words()
        assert "Delays and locks given before were set back with it" in self.words()
        redis_client.hset("ql:meta", "shifts", '[{"queue": "mail"}]')
        words = self.words()
        assert "still being set back, now in queue mail: keep a worker running" in words

    def test_a_record_that_cannot_be_read(self, qless, redis_client) -> None:
        handle = add.delay(1)
        add.delay(2)
        redis_client.hset(f"ql:j:{handle.jid}", "priority", "urgent")
        words = self.words()
        assert (
            f"PROBLEM records job {handle.jid}: Its field priority cannot be read: urgent"
            in words
        )
        assert words.count("cannot be read") == 1
        assert "no worker serves" in words

    def test_a_queue_that_nobody_serves(self, qless) -> None:
        qless.beat("w1", '{"queues": ["mail-*"], "exclude": ["mail-2"]}', [])
        for queue in ("mail-1", "mail-2"):
            add.using(queue=queue).delay(1)
        words = self.words()
        assert "no worker serves mail-2, with 1 job, the oldest" in words
        assert "serves mail-1" not in words
        queues["mail-2"].pause()
        assert "mail-2 is paused, with 1 job" in self.words()

    def test_jobs_of_a_name_that_nobody_knows(self, qless) -> None:
        qless.put("", "default", "a", "gone.job", "{}")
        assert "jobs named 'gone.job' are waiting" in self.words()

    def test_libraries_of_other_versions(self, qless, redis_client) -> None:
        # Other tests have left theirs.
        redis_client.function_flush()
        redis_client.function_load(
            "#!lua name=qless_0123456789ab\n"
            "redis.register_function('qless_0123456789ab_read', "
            "function() return 1 end)"
        )
        assert "libraries of other versions (1)" in self.words()
        assert "removed: qless_0123456789ab" in self.cleaned()
        assert "of other versions" not in self.words()

    def cleaned(self) -> str:
        output = io.StringIO()
        with contextlib.suppress(SystemExit):
            call_command("qless_doctor", "--clean", "--no-audit", stdout=output)
        return output.getvalue()

    @pytest.mark.parametrize("role", ["operator", "worker"])
    def test_nothing_is_tried_that_its_user_may_not_do(
        self, qless, server: Server, role: str
    ) -> None:
        """What could not be checked is said, and what it would take."""
        add.delay(1)
        location = {"LOCATION": url_of(server, role)}
        with nothing_refused(server), override_settings(QLESS={"default": location}):
            words = self.words("--clean")
        assert "fine permissions the server's user has what a worker needs" in words
        unchecked = re.findall(r"^hint (\w+) not checked: .* adds it\.$", words, re.M)
        if role == "operator":
            assert unchecked == []
            assert "fine records" in words
        else:
            assert unchecked == ["functions", "records"]
            assert "ACL SETUSER <user> +lpos +scan +type adds it" in words
            assert "fine server" in words

    def test_what_its_user_lacks(self, qless, server: Server) -> None:
        set_user(server, "worker", "-hset", "-info")
        location = {"LOCATION": url_of(server, "worker")}
        with nothing_refused(server), override_settings(QLESS={"default": location}):
            words = self.words()
        set_user(server, "worker")
        assert "PROBLEM permissions The user lacks +hset. " in words
        assert "ACL SETUSER <user> +hset adds it" in words
        assert "hint server not checked: version, memory, eviction" in words

    def test_a_user_who_may_not_even_look(self, server: Server) -> None:
        set_user(server, "worker", "-hmget")
        location = {"LOCATION": url_of(server, "worker")}
        with override_settings(QLESS={"default": location}):
            found = self.findings()
        set_user(server, "worker")
        assert found[-1][:2] == ("PROBLEM", "server")
        assert "ACL SETUSER worker +hmget adds it" in found[-1][2]

    def test_options_set_by_hand(self, qless) -> None:
        qless.config_set("heartbeat", 5)
        assert "heartbeat was set by an operator" in self.words()


def test_an_unknown_alias_is_named() -> None:
    with pytest.raises(CommandError, match="'nowhere'"):
        run("qless_status", "--alias", "nowhere")


def test_status_is_shown_again_and_again(
    qless, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt
        add.delay(1)

    monkeypatch.setattr("time.sleep", pause)
    lines = run("qless_status", "--watch", "0.5", "--json").splitlines()
    counts = [[q["waiting"] for q in json.loads(line)["queues"]] for line in lines]
    assert counts == [[], [1], [2]]
    assert pauses == [0.5] * 3
