"""Starting a detached run, from the child that has reserved its job.

The run's parent is a new program in a session of its own, and its own parent ends at
once. It inherits the standard environment variables and one descriptor: the lock that
tells that it lives.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from django_qless.worker.detached.records import Run, Runs
from django_qless.worker.restart import working_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core import Reserved

#: A program that finds the modules that this one finds, and calls a function with its
#: arguments: where they are found is the first thing in its folder.
PROGRAM = (
    "import json, sys; "
    "sys.path[:] = json.load(open(sys.argv[2] + '/order.json'))['path']; "
    "from importlib import import_module; "
    "import_module(sys.argv[1]).main(*sys.argv[2:])"
)


# The part of a lock's length, and the most seconds, by which a run ends before it.
MARGIN, MOST_MARGIN = 0.2, 10.0


def fence(sent: float, length: float) -> float:
    """Return when a run must end whose lock was renewed by a call sent then (boottime)."""
    return sent + length - min(MARGIN * length, MOST_MARGIN)


class QueueFull(Exception):
    """As many jobs of the queue run on this host as may run at once."""


def program(module: str, *arguments: object) -> list[str]:
    """Return the command that calls `main` of the module; a folder is the first argument."""
    return [sys.executable, "-c", PROGRAM, module, *map(str, arguments)]


def start(
    runs: Runs,
    reserved: Reserved,
    *,
    limit: int,
    until: float,
    entry: Sequence[str],
    **details: Any,
) -> Run:
    """Start a run of a reserved job, whose lock holds `until` then (boottime).

    `entry` is the dotted name of a function and its arguments, which gives the job's
    process its environment. Raises QueueFull if `limit` jobs of the queue run already,
    and OSError, without a trace of the run.
    """
    order = {
        "job": list(reserved),
        "entry": list(entry),
        "path": [os.path.abspath(each or ".") for each in sys.path],
        "directory": working_directory(),
        "host": socket.gethostname(),
        "started": time.time(),
        **details,
    }
    with runs.adding():
        if runs.running().get(reserved.queue, 0) >= limit:
            raise QueueFull(reserved.queue)
        run, alive = runs.add(order, until)
    try:
        launch(run, alive)
    except BaseException:
        run.remove()
        raise
    finally:
        os.close(alive)
    return run


def launch(run: Run, alive: int) -> None:
    """Start the run's parent; return when it is on its own. Raises OSError."""
    with (run.folder / "parent.log").open("wb") as log:
        done = subprocess.run(
            program("django_qless.worker.detached.parent", run.folder, alive),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(alive,),
            start_new_session=True,
            cwd="/",
            check=False,
        )
    if done.returncode:
        said = (run.folder / "parent.log").read_text(errors="replace")
        raise OSError(f"a detached run cannot be started: {said[-1000:]}")
