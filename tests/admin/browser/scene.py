"""A site that a browser can visit: a server, a web server, a worker, something to show."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

from django_qless.core import Client
from tests.admin.content import fill, plain
from tests.real_servers import Server, free_port, poll

if TYPE_CHECKING:
    from tests.admin.content import Content, Words

ROOT = Path(__file__).parents[3]
USER, PASSWORD = "demo", "demo"

#: What the worker serves: jobs elsewhere stay as they are, for pages to show.
LIVE_QUEUE = "live"


class Scene:
    """A context manager; all that it starts ends with it.

    `words` are the texts of the content (see tests/admin/content.py). Each process reads
    the code anew, but a change of the code needs a new scene.
    """

    def __init__(self, words: Words = plain, *, worker: bool = True) -> None:
        self.words, self.has_worker = words, worker
        self.content: Content
        self._stack = ExitStack()

    def __enter__(self) -> Scene:
        try:
            self._begin()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="scene-"))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.server = self._stack.enter_context(Server())
        self.client = Client(self.server.client())
        self._stack.callback(self.client.close)
        self.content = fill(self.client, self.words)
        self.url = f"http://127.0.0.1:{free_port()}"
        self.run("-m", "tests.admin.browser.prepare", USER, PASSWORD).wait()
        # --insecure: static files although DEBUG is off, as strict as a real site.
        options = ("--insecure", "--noreload", "--skip-checks")
        address = self.url.removeprefix("http://")
        self.manage("runserver", address, *options)
        if self.has_worker:
            self.start_worker()
        poll(self._answers, what=f"the site answers: {self.output}")

    def start_worker(self) -> None:
        """Start the worker of the live queue, and wait until it sends heartbeats."""
        self.worker = self.manage(
            *("qless_worker", LIVE_QUEUE, "--name", "live-worker", "--pool", "threads")
        )
        poll(self._worker_beats, what=f"the worker beats: {self.output}")

    def manage(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a command of Django's; it is ended with the scene."""
        return self.run("-m", "django", *command)

    def run(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start another Python with the scene's settings."""
        with (self.folder / "output.log").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env={
                    **os.environ,
                    "DJANGO_SETTINGS_MODULE": "tests.admin.browser.settings",
                    "QLESS_SCENE": str(self.folder),
                    "QLESS_SCENE_SERVER": self.server.url,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._stack.callback(self._end, process)
        return process

    @property
    def output(self) -> str:
        """What the processes have written so far."""
        return (self.folder / "output.log").read_text(errors="replace")

    def _worker_beats(self) -> bool:
        assert self.worker.poll() is None, self.output
        return any(each.name == "live-worker" for each in self.client.workers())

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/admin/login/", timeout=120) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
