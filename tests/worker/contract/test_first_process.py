"""A worker that is the first process of a container."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import ROOT, descendants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worker.stage import Stage

JOBS = 50
CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


@pytest.fixture
def container(stage: Stage) -> Iterator[int]:
    """A worker as process 1 of a namespace of processes; gives its id out here."""
    if subprocess.run(
        [*CONTAINER, "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip("this user may have no namespaces")
    options = {"url": stage.server.url, "pool": stage.pool, "queues": ["q"]}
    program = [sys.executable, "-m", "tests.worker.program", json.dumps(options)]
    with (stage.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*CONTAINER, "--kill-child", *program], cwd=ROOT, stdout=log, stderr=log
        )
    try:
        yield stage.wait(lambda: descendants(process.pid), "it has begun")[0]
    finally:
        process.kill()
        process.wait()


def test_it_leaves_no_zombie(stage: Stage, container: int) -> None:
    jids = [stage.put("leave_sleeper", stage.runs.path, n) for n in range(JOBS)]
    for jid in jids:
        stage.job_when(jid, "complete")
    assert len(stage.runs.all()) == JOBS
    stage.wait(
        lambda: "sleep" not in [name_of(pid) for pid in descendants(container)],
        "all are gone, also as zombies",
        seconds=5,
    )
    os.kill(container, signal.SIGTERM)
    stage.wait(lambda: not descendants(container), "it ends")


def name_of(pid: int) -> str:
    """Return the name of a process's program, of a zombie as well; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
