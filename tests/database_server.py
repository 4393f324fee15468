"""A real database server for the tests: private, on a Unix socket, ended for certain."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.real_servers import LAUNCH, guard, short_folder

# Database servers refuse to be run by root.
NOBODY = "nobody" if os.geteuid() == 0 else None


class DatabaseServer:
    """One server with its data in a separate folder; both go with `close()`."""

    #: The signal that ends it at once, without waiting for its clients.
    stop = signal.SIGKILL

    def __init__(self) -> None:
        self.folder = short_folder()
        if NOBODY:
            shutil.chown(self.folder, NOBODY)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = guard(self.folder)

    @property
    def database(self) -> dict[str, Any]:
        """The entry for Django's DATABASES."""
        raise NotImplementedError

    def ask(self, query: str) -> list[Any]:
        """Return the rows, if there are any, from a connection of one's own."""
        raise NotImplementedError

    @property
    def log(self) -> str:
        """What the server wrote so far."""
        return (self.folder / "server.log").read_text(errors="replace")

    def close(self) -> None:
        """End the server at once and remove its folder."""
        if self._process is not None:
            self._process.send_signal(self.stop)
            self._process.wait(20)
        assert self._guard.stdin is not None
        self._guard.communicate(b"\nclose\n")

    @property
    def _environment(self) -> dict[str, str]:
        """Its environment: a MariaDB that starts deletes what others have in /tmp."""
        return {**os.environ, "TMPDIR": str(self.folder)}

    def _prepare(self, command: list[str | Path]) -> None:
        """Run the program that makes the data."""
        done = subprocess.run(
            command,
            user=NOBODY,
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} has failed: {done.stdout}")

    def _launch(self, command: list[str]) -> None:
        """Start the server."""
        with (self.folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", LAUNCH, "launch", *command],
                user=NOBODY,
                cwd=self.folder,
                env=self._environment,
                stdin=self._guard.stdin,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _answers(self, refusal: type[Exception]) -> bool:
        """Return whether it answers; `refusal` is raised while it does not."""
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(f"{type(self).__name__} has ended: {self.log}")
        try:
            return bool(self.ask("SELECT 1"))
        except refusal:
            return False
