"""How a worker begins and how it ends."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.permissions import set_user, url_of
from tests.real_servers import Server, available_kinds, poll
from tests.worker.conftest import is_alive
from tests.worker.ledger import Gate, Ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client, Job
    from tests.worker.conftest import WorkerProcess

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]


class TestBurst:
    def test_it_ends_when_all_is_done(
        self, start_worker: StartWorker, put: Put, ledger: Ledger
    ) -> None:
        for n in range(300):
            put("say", ledger.path, n)
        assert start_worker(burst=True, concurrency=3).wait() == 0
        assert len(ledger.all()) == 300

    def test_it_ends_at_once_when_there_is_nothing(
        self, start_worker: StartWorker
    ) -> None:
        assert start_worker(burst=True, concurrency=2).wait() == 0

    def test_what_is_due_later_does_not_count(
        self, start_worker: StartWorker, put: Put, client: Client
    ) -> None:
        put("give", 1, delay=3600)
        assert start_worker(burst=True).wait() == 0
        assert client.queue_counts("q").scheduled == 1

    def test_idle_children_wait_for_what_the_busy_ones_bring(
        self, start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate
    ) -> None:
        first = put("stay", ledger.path, gate.path, "first")
        for n in range(20):
            put("say", ledger.path, "dependent", n, depends=[first])
        worker = start_worker(burst=True, concurrency=3)
        ledger.wait_until(1)
        gate.open()
        assert worker.wait() == 0
        assert len(ledger.starting_with("dependent")) == 20

    def test_what_a_crash_gives_back_is_run(
        self, start_worker: StartWorker, put: Put, ledger: Ledger, job_when: JobWhen
    ) -> None:
        jid = put("exit_at_once", ledger.path, 1)
        assert start_worker(burst=True, concurrency=2).wait() == 0
        assert job_when(jid, "failed").failure.group == "worker-crash"  # type: ignore[union-attr]
        assert ledger.all().count(f"running {jid}") == 4


class TestSignals:
    @pytest.mark.parametrize("name", ["TERM", "INT"])
    def test_the_running_job_ends_and_no_other_is_started(
        self,
        start_worker: StartWorker,
        put: Put,
        ledger: Ledger,
        gate: Gate,
        client: Client,
        job_when: JobWhen,
        name: str,
    ) -> None:
        running = put("stay", ledger.path, gate.path, "job")
        worker = start_worker(queues=["q"])
        ledger.wait_until(1)
        waiting = put("say", ledger.path, "waiting")
        worker.signal(name)
        worker.wait_for_log(f"SIG{name}")
        # The log says so first; its title changes when its children have been told.
        title = Path(f"/proc/{worker.pid}/cmdline")
        poll(lambda: "draining" in title.read_text(), what="the children are told")
        gate.open()
        assert worker.wait() == 0
        assert job_when(running, "complete")
        assert job_when(waiting, "waiting")
        assert "waiting" not in ledger.all()
        assert client.workers() == []

    def test_an_idle_worker_ends_at_once(
        self, start_worker: StartWorker, client: Client
    ) -> None:
        worker = start_worker(queues=["q"], concurrency=2, shutdown_timeout=3600)
        poll(lambda: client.workers(), what="the worker beats")
        worker.signal("TERM")
        assert worker.wait() == 0

    @pytest.mark.parametrize("name", ["TERM", "INT"])
    def test_the_second_signal_hands_back_what_runs(
        self,
        start_worker: StartWorker,
        put: Put,
        ledger: Ledger,
        gate: Gate,
        job_when: JobWhen,
        name: str,
    ) -> None:
        jid = put("stay", ledger.path, gate.path, "job", retries=0)
        worker = start_worker(queues=["q"])
        pid = int(ledger.wait_until(1)[0].split()[2])
        worker.signal(name)
        worker.wait_for_log(f"SIG{name}")
        assert is_alive(pid)
        worker.signal(name)
        assert worker.wait() == 0
        assert not is_alive(pid)
        job = job_when(jid, "waiting")
        assert (job.remaining, job.worker) == (0, "")

    def test_the_timeout_hands_back_what_runs(
        self,
        start_worker: StartWorker,
        put: Put,
        ledger: Ledger,
        gate: Gate,
        job_when: JobWhen,
    ) -> None:
        jid = put("stay", ledger.path, gate.path, "job", retries=0)
        worker = start_worker(queues=["q"], shutdown_timeout=0.2)
        ledger.wait_until(1)
        worker.signal("TERM")
        assert worker.wait() == 0
        assert job_when(jid, "waiting").remaining == 0

    def test_beats_go_on_until_the_last_job_has_ended(
        self,
        start_worker: StartWorker,
        put: Put,
        ledger: Ledger,
        gate: Gate,
        client: Client,
        job_when: JobWhen,
    ) -> None:
        client.config_set("heartbeat", 0.5)
        jid = put("stay", ledger.path, gate.path, "job")
        worker = start_worker(queues=["q"])
        ledger.wait_until(1)
        worker.signal("TERM")
        worker.wait_for_log("SIGTERM")
        seen = job_when(jid, "running").expires
        poll(
            lambda: job_when(jid, "running").expires > seen + 1,
            what="the lock is renewed during the drain",
        )
        gate.open()
        assert worker.wait() == 0
        assert job_when(jid, "complete")

    def test_a_child_ended_from_outside_settles_and_is_replaced(
        self,
        start_worker: StartWorker,
        put: Put,
        ledger: Ledger,
        gate: Gate,
        job_when: JobWhen,
    ) -> None:
        jid = put("stay", ledger.path, gate.path, "job")
        start_worker(queues=["q"])
        pid = int(ledger.wait_until(1)[0].split()[2])
        os.kill(pid, 15)
        gate.open()
        assert job_when(jid, "complete")
        poll(lambda: not is_alive(pid), what="the child has left")
        job_when(put("give", 1), "complete")


class TestBeginning:
    def test_it_shows_itself(self, start_worker: StartWorker, client: Client) -> None:
        worker = start_worker(queues=["a", "b*"], concurrency=2, name="w1")
        (shown,) = poll(client.workers, what="the worker beats")
        assert shown.name == "w1"
        assert shown.info is not None
        assert shown.info["pid"] == worker.pid
        assert shown.info["queues"] == ["a", "b*"]
        assert shown.info["concurrency"] == 2

    def test_without_a_server_it_says_so(
        self, start_worker: StartWorker, tmp_path: Path
    ) -> None:
        worker = start_worker(url=f"unix://{tmp_path}/nowhere.sock")
        assert worker.wait() == os.EX_UNAVAILABLE
        assert "nothing was sent" in worker.output
        assert "Traceback" not in worker.output

    def test_with_a_wrong_password_it_says_so(
        self, start_worker: StartWorker, client: Client
    ) -> None:
        with Server("valkey") as server:
            server.client().config_set("requirepass", "secret")
            worker = start_worker(url=server.url)
            assert worker.wait() == os.EX_NOPERM
        assert "password" in worker.output
        assert "Traceback" not in worker.output

    @pytest.mark.parametrize("kind", available_kinds())
    def test_without_a_permission_it_points_to_the_page_of_permissions(
        self, start_worker: StartWorker, kind: str
    ) -> None:
        with Server(kind) as server:
            set_user(server, "worker", "-hmget")
            worker = start_worker(url=url_of(server, "worker"))
            assert worker.wait() == os.EX_NOPERM
            assert "docs/permissions.md" in worker.output
            assert "Traceback" not in worker.output
            set_user(server, "worker", "-zadd")
            worker = start_worker(url=url_of(server, "worker"))
            worker.wait_for_log("docs/permissions.md")
            set_user(server, "worker", "-info")
            worker = start_worker(url=url_of(server, "worker"), burst=True)
            assert worker.wait() == 0
            assert "its user lacks +info" in worker.output

    def test_it_warns_of_a_server_that_may_lose_jobs(
        self, start_worker: StartWorker
    ) -> None:
        policy = ("--maxmemory-policy", "allkeys-lru")
        with Server("valkey", *policy) as server:
            worker = start_worker(url=server.url, burst=True)
            assert worker.wait() == 0
        assert "noeviction" in worker.output
        assert "append-only" in worker.output

    def test_it_does_not_warn_of_a_server_that_keeps_jobs(
        self, start_worker: StartWorker
    ) -> None:
        with Server("valkey", "--appendonly", "yes") as server:
            worker = start_worker(url=server.url, burst=True)
            assert worker.wait() == 0
        assert "warning" not in worker.output


def test_all_workers_consume_again_after_a_restart_of_the_server(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    from django_qless.core import Client as NewClient
    from django_qless.core import new_jid

    # Otherwise the server may answer before it has written, and forget a job's end.
    with Server("valkey", "--appendonly", "yes", "--appendfsync", "always") as server:
        workers = [start_worker(url=server.url, queues=[f"q{n}"]) for n in range(2)]
        for worker in workers:
            worker.wait_for_log("started")
        with NewClient(server.client()) as client:

            def put(word: str) -> None:
                for n in range(2):
                    data = f'{{"v": 1, "args": ["{ledger.path}", "{word}-{n}"]}}'
                    client.put("", f"q{n}", new_jid(), "say", data)

            put("before")
            ledger.wait_for("before-0", "before-1")
            for how in ("kill", "stop"):
                getattr(server, how)()
                server.start()
                put(how)
                ledger.wait_for(f"{how}-0", f"{how}-1")
        for worker in workers:
            worker.signal("TERM")
            assert worker.wait() == 0
        assert len(ledger.all()) == 6


def test_while_the_server_is_away_the_worker_hardly_works(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    from django_qless.core import Client as NewClient
    from django_qless.core import new_jid

    def cpu_seconds(pids: list[int]) -> float:
        ticks = 0
        for pid in pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    with Server("valkey", "--appendonly", "yes") as server:
        worker = start_worker(url=server.url, queues=["q"], concurrency=4)
        with NewClient(server.client()) as client:
            poll(client.workers, what="the worker beats")
            server.kill()
            time.sleep(1)
            family = worker.family()
            used, began = cpu_seconds(family), time.monotonic()
            time.sleep(3)
            used = cpu_seconds(family) - used
            assert used < 0.05 * (time.monotonic() - began)
            server.start()
            data = f'{{"v": 1, "args": ["{ledger.path}", "again"]}}'
            client.put("", "q", new_jid(), "say", data)
            ledger.wait_for("again")


def test_the_end_of_a_run_is_told_though_its_process_is_dead(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    client: Client,
    tmp_path: Path,
) -> None:
    """By the next child: the parent runs nobody's code."""
    told = Ledger(tmp_path / "told")
    options = {"announcements": told.path, "limits": {"limited": {"hard_timeout": 0.2}}}
    start_worker(queues=["q", "limited"], **options)
    put("exit_at_once", ledger.path, 1)
    told.wait_for("retried exit_at_once worker-crash", times=3)
    told.wait_for("failed exit_at_once worker-crash")
    put("hold_gil", 1000, queue="limited", retries=0)
    told.wait_for("failed hold_gil timeout")
    jid = put("stay", ledger.path, gate.path, "job")
    ledger.wait_for(f"running job {ledger.wait_until(5)[4].split()[2]}")
    client.put("", "elsewhere", jid, "stay", "{}")
    told.wait_for("lost stay -")
    told.close()


class TestRecycling:
    """The parent's side, where a process runs several jobs at once."""

    def test_long_jobs_of_a_leaving_process_hold_nobody_up(
        self, start_worker: StartWorker, put: Put, ledger: Ledger, tmp_path: Path
    ) -> None:
        gates = {name: Gate(tmp_path / name) for name in ("old", "new", "last")}

        def stay(name: str) -> None:
            put("stay", ledger.path, gates[name].path, name)

        def pid_of(name: str) -> str:
            def pids() -> list[str]:
                lines = [line.split() for line in ledger.all()]
                return [line[2] for line in lines if line[:2] == ["running", name]]

            return poll(pids, what=f"{name} runs")[0]

        stay("old")
        options = {"pool": "threads", "concurrency": 2, "max_jobs": 3}
        start_worker(queues=["q"], **options)
        old = pid_of("old")
        for n in range(5):
            put("say", ledger.path, n)
        ledger.wait_for(*"01234")
        # Its process leaves, but stays as long as the job does; another has begun.
        stay("new")
        assert pid_of("new") != old
        # There is no room for a third.
        stay("last")
        gates["new"].open()
        begun = f"running last {pid_of('last')}"
        assert ledger.lines.index("over new") < ledger.lines.index(begun)
        gates["old"].open()
        poll(lambda: not is_alive(int(old)), what="the old process has left")
        gates["last"].open()
        ledger.wait_for("over last")
        for gate in gates.values():
            gate.close()


def test_flushed_scripts_and_functions_do_no_harm(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    start_worker(queues=["q"]).wait_for_log("started")
    for n in range(5):
        client.redis.script_flush()
        client.redis.function_flush()
        put("say", ledger.path, n)
        ledger.wait_for(str(n))
