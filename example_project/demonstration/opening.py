"""Opens the admin: a web server and a worker, with something for every page to show."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from codebase.models import Package
from demonstration.follow_ups import keep_busy, put_follow_ups
from demonstration.steps import (
    HERE,
    SAMPLES,
    WORKER_LOG,
    DemoFailed,
    a_file_that_goes_missing,
    package_at,
    prepare_database,
)

HOST = "127.0.0.1"
SERVER_LOG = HERE / "server.log"
PATIENCE = 30.0
"""Seconds for the web server to begin, and for a process to end."""


def open_admin(port: int) -> None:
    """Shows the admin until it is interrupted. Raises DemoFailed."""
    must_be_free(port)
    prepare_database()
    packages = packages_to_show()
    put_follow_ups(packages)
    keep_busy(packages)
    with (
        running("the worker", WORKER_LOG, "qless_worker", *WORKER) as worker,
        running("the web server", SERVER_LOG, *SERVER, f"{HOST}:{port}") as server,
    ):
        await_server(port, server)
        print(
            f"http://{HOST}:{port}/admin/django_qless/overview/\n"
            "  log in as demo with the password demo\n"
            f"  a worker runs; it writes to {WORKER_LOG}\n"
            "  Ctrl-C ends both; the jobs are kept",
            flush=True,
        )
        while server.poll() is worker.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(0.5)
        ended = "web server" if server.poll() is not None else "worker"
        log = SERVER_LOG if server.poll() is not None else WORKER_LOG
    raise DemoFailed(f"the {ended} has ended: see {log}")


WORKER = ["--concurrency", "3", "--no-reload", "--shutdown-timeout", "2"]
SERVER = ["runserver", "--noreload"]


def packages_to_show() -> list[Package]:
    """Returns what the demo has measured, or has django_qless itself measured."""
    known = list(Package.objects.order_by("pk"))
    if known:
        return known
    packages = [package_at(HERE.parent / "django_qless"), package_at(SAMPLES)]
    with a_file_that_goes_missing():
        for package in packages:
            package.scan()  # here and now; the measurements are left to the worker
    for package in packages:
        package.summarise.delay()
    return packages


def must_be_free(port: int) -> None:
    """Raises DemoFailed if another program listens there."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise DemoFailed(
                f"{HOST}:{port} cannot be used ({error}): try make admin PORT=8001"
            ) from None


def await_server(port: int, server: subprocess.Popen[bytes]) -> None:
    """Waits until the web server answers. Raises DemoFailed."""
    deadline = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        time.sleep(0.1)
    raise DemoFailed(f"the web server does not answer: see {SERVER_LOG}")


@contextlib.contextmanager
def running(what: str, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a command of manage.py beside this process, and ends it.

    It runs in another session, so that Ctrl-C reaches this process only.
    """
    command = [sys.executable, "manage.py", *arguments]
    with log.open("a") as output:
        process = subprocess.Popen(
            command,
            cwd=HERE,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            print(f"{what} did not end, and is killed", file=sys.stderr)
            process.kill()
            process.wait()


def end_as_interrupted(signum: int, frame: FrameType | None) -> None:
    """Has a signal that ends programs do what Ctrl-C does."""
    raise KeyboardInterrupt


def end_on_signals() -> None:
    """Ends both processes when this one is ended, or its terminal closes."""
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, end_as_interrupted)
