"""What a worker says of itself, and what others make of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core.commands.operations import WorkerCounts
from django_qless.worker import memory
from django_qless.worker.introduction import Introduction
from django_qless.worker.options import WorkerOptions
from django_qless.worker.serving import SILENCE, Coverage, is_alive
from django_qless.worker.shutdown import Shutdown
from tests.servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client
    from tests.worker.conftest import WorkerProcess

    StartWorker = Callable[..., WorkerProcess]

NOW = 1_000_000.0


def worker(name: str = "w", silent: float = 0.0, **info: Any) -> WorkerCounts:
    return WorkerCounts(name, 0, 0, NOW - silent, info or None)


class TestIntroduction:
    def test_it_is_about_this_process_and_its_options(self) -> None:
        options = WorkerOptions(queues=("a", "b*"), concurrency=3, name="w")
        said = json.loads(Introduction(options, Shutdown(10)).say())
        assert said["queues"] == ["a", "b*"]
        assert said["concurrency"] == 3
        assert said["state"] == "running"
        assert said["processes"] >= 1
        assert said["memory"] > 1_000_000

    def test_a_new_state_is_news_until_it_is_said(self) -> None:
        shutdown = Shutdown(10)
        introduction = Introduction(WorkerOptions(queues=("a",), name="w"), shutdown)
        assert introduction.is_news
        introduction.say()
        assert not introduction.is_news
        shutdown.quiet = True
        assert introduction.is_news
        assert json.loads(introduction.say())["state"] == "quiet"
        assert not introduction.is_news

    def test_a_worker_says_its_state_without_waiting_for_its_next_beat(
        self, start_worker: StartWorker, client: Client
    ) -> None:
        def state() -> str | None:
            (found,) = client.workers() or [worker()]
            return (found.info or {}).get("state")

        process = start_worker(queues=["q"], name="w")
        poll(lambda: state() == "running", what="it beats")
        # Without jobs its heart beats every ten seconds.
        process.signal("TSTP")
        poll(lambda: state() == "quiet", what="it is said to be quiet", seconds=5)
        process.signal("CONT")
        poll(lambda: state() == "running", what="it is said to run", seconds=5)


class TestMemory:
    def test_a_family_is_counted_with_its_children_and_theirs(self) -> None:
        code = (
            "import subprocess, sys\n"
            "inner = 'print(1, flush=True); input()'\n"
            "subprocess.run([sys.executable, '-c', inner], check=True)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as parent:
            assert parent.stdout
            assert parent.stdin
            parent.stdout.readline()
            found = memory.of_family(parent.pid)
            alone = memory.resident(parent.pid)
            parent.stdin.write("\n")
            parent.stdin.flush()
        assert found
        assert alone
        assert found.processes == 2
        assert found.bytes > alone

    def test_of_a_process_that_has_ended_nothing_is_known(self) -> None:
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            pass
        assert memory.of_family(process.pid) is None


class TestServing:
    def test_silence_makes_the_difference(self) -> None:
        assert is_alive(worker(silent=SILENCE - 1), NOW)
        assert not is_alive(worker(silent=SILENCE), NOW)

    @pytest.mark.parametrize(
        ("workers", "serves"),
        [
            ([], False),
            ([worker(queues=["mail"])], True),
            ([worker(queues=["ma*"])], True),
            ([worker(queues=["other"])], False),
            ([worker(queues=["*"], exclude=["mail"])], False),
            ([worker(queues=["*"], exclude=["mail"]), worker(queues=["mail"])], True),
            ([worker(queues=["mail"], silent=SILENCE)], False),
            ([worker(queues=["mail"], state="quiet")], False),
            ([worker(queues=["mail"], state="stopping")], False),
            ([worker(queues=["mail"], state="running")], True),
            # Of another qless client, which may serve anything.
            ([worker(host="ruby")], True),
            ([worker()], True),
            ([worker(queues=7, exclude={})], True),
            ([worker(queues=["mail"], exclude=7)], True),
            ([worker(silent=SILENCE)], False),
        ],
    )
    def test_which_workers_take_the_jobs_of_mail(
        self, workers: list[WorkerCounts], serves: bool
    ) -> None:
        assert Coverage(workers, NOW).serves("mail") is serves
