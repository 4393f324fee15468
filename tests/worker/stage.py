"""All that a scene with workers needs: a server, jobs, runs, latches and workers."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django_qless.core import Client, Put
from django_qless.core.put import new_jid
from tests.permissions import nothing_refused, url_of
from tests.real_servers import poll
from tests.worker.processes import WorkerProcess
from tests.worker.runs import Latch, Run, Runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from django_qless.core import Job
    from tests.real_servers import Server

PATIENCE = 90.0

FLAVOURS = ("", "a")
"""What the names of jobs begin with: plain functions, and coroutines."""


class Stage:
    """Where workers of one pool run recorded jobs; a context manager."""

    def __init__(self, server: Server, folder: Path, pool: str) -> None:
        self.server = server
        self.folder = folder
        self.pool = pool
        self.client = Client(server.client())
        self.runs = Runs(folder / "runs")
        self.workers: list[WorkerProcess] = []
        self._latches: dict[str, Latch] = {}
        self._stack = ExitStack()
        self._stack.enter_context(nothing_refused(server))
        self._stack.callback(self.client.close)
        self._stack.callback(self.runs.close)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    # Workers.

    def start(
        self,
        *,
        clock_off: float = 0,
        cron_by_seconds: bool = False,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> WorkerProcess:
        """Start a worker of the pool for the queue "q", unless options say else.

        Its clock may be wrong, or any cron expression tick each second for it.
        """
        environment = dict(environment or {})
        if clock_off:
            environment["QLESS_TEST_CLOCK_OFF"] = str(clock_off)
        if cron_by_seconds:
            environment["QLESS_TEST_CRON_BY_SECONDS"] = "1"
        chosen = {
            "pool": self.pool,
            "queues": ["q"],
            "url": url_of(self.server, "worker"),
            **options,
        }
        worker = WorkerProcess(
            chosen.pop("url"),
            self.folder / f"worker-{len(self.workers) + 1}.log",
            module="tests.worker.contract.process",
            environment=environment,
            **chosen,
        )
        self._stack.callback(worker.close)
        self.workers.append(worker)
        return worker

    def run(self, **options: Any) -> WorkerProcess:
        """Have a worker run all jobs that are ready, to its end."""
        worker = self.start(**{"burst": True, **options})
        assert worker.wait() == 0, worker.output
        return worker

    # Jobs.

    def put(self, klass: str, *args: Any, queue: str = "q", **options: Any) -> str:
        """Put a job with these arguments; return its jid."""
        jid = options.pop("jid", None) or new_jid()
        self.client.put(
            "", queue, jid, klass, json.dumps({"v": 1, "args": args}), **options
        )
        return jid

    def put_run(self, klass: str, name: object, *args: Any, **options: Any) -> str:
        """Put a job whose runs are recorded under this name."""
        return self.put(klass, self.runs.path, str(name), *args, **options)

    def put_hold(
        self, klass: str, name: object, latch: str = "latch", **options: Any
    ) -> str:
        """Put a recorded job that waits for a latch."""
        return self.put_run(klass, name, self.latch(latch).path, **options)

    def put_records(
        self, names: Iterable[object], seconds: float = 0, **options: Any
    ) -> list[str]:
        """Put one recorded job for each name, both flavours in turn, in few calls."""
        queue = options.pop("queue", "q")
        puts = []
        for at, name in enumerate(names):
            data = json.dumps({"v": 1, "args": [self.runs.path, str(name), seconds]})
            klass = f"{FLAVOURS[at % 2]}record"
            puts.append(Put(new_jid(), queue, klass, data, **options))
        self.client.put_many("", puts)
        return [put.jid for put in puts]

    def latch(self, name: str = "latch") -> Latch:
        """Return the latch of this name."""
        known = self._latches.get(name)
        if known is None:
            known = self._latches[name] = Latch(self.folder / f"{name}.open")
        return known

    def job(self, jid: str) -> Job:
        """Return a job as it is now."""
        job = self.client.get(jid)
        assert job is not None
        return job

    def job_when(self, jid: str, *states: str) -> Job:
        """Return a job as soon as it is in one of these states."""

        def look() -> Job | None:
            job = self.client.get(jid)
            return job if job and job.state in states else None

        try:
            job: Job = self.wait(look, f"a job is {' or '.join(states)}")
        except AssertionError as error:
            raise AssertionError(f"{self.client.get(jid)}: {error}") from None
        return job

    def what_happened(self, jid: str) -> list[str]:
        """Return the job's history in one word each."""
        return [entry["what"] for entry in self.job(jid).history]

    # Runs.

    def run_of(self, name: object, times: int = 1) -> Run:
        """Return the nth run of the job of this name, when it has begun."""
        self.wait(lambda: len(self.runs.of(name)) >= times, f"{name} runs")
        return self.runs.of(name)[times - 1]

    def end_of(self, name: object, times: int = 1) -> Run:
        """Return the nth run of the job of this name, when it has ended somehow."""
        self.wait(
            lambda: (
                len(found := self.runs.of(name)) >= times
                and not found[times - 1].is_open
            ),
            f"{name} has ended",
        )
        return self.runs.of(name)[times - 1]

    def wait(self, condition: Any, what: str, seconds: float = PATIENCE) -> Any:
        """Return the first true result of the condition; fail with all that is known."""

        def look() -> Any:
            result = condition()
            if not result and self.has_failed:
                raise AssertionError(f"no worker is left: {what}")
            return result

        try:
            return poll(look, what=what, seconds=seconds)
        except AssertionError as error:
            runs = "\n".join(map(str, self.runs.all()[-30:]))
            queues = self.client.queues() if self.server.running else "no server"
            raise AssertionError(f"{error}\n{queues}\n{runs}\n{self.logs()}") from None

    @property
    def has_failed(self) -> bool:
        """Whether there were workers, and all have ended, the last with an error."""
        ends = [worker.process.poll() for worker in self.workers]
        return bool(ends) and None not in ends and ends[-1] not in (0, -9)

    def logs(self) -> str:
        """Return the end of what the workers logged."""
        return "\n".join(
            f"-- {worker.log.name}\n{worker.output[-3000:]}" for worker in self.workers
        )
