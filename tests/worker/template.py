"""A process that has imported what a worker needs, and forks a worker for each order.

    python -m tests.worker.template MODULE

Half of the time of a worker of the tests would be that of its imports. An order is a
line of JSON on standard input: the worker's arguments and where its output and its exit
status go, and perhaps its folder and its environment. The answer is a line with its
process id. The template ends with its input.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Any

# What `main` of a module imports when it is called.
from django_qless.worker import log, options, server_checks, worker  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable


def take_orders() -> dict[str, Any]:
    """Fork for each order; return it in the new process. The template never returns."""
    ends, ended = os.pipe()
    os.set_blocking(ended, False)
    signal.set_wakeup_fd(ended)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    status_files: dict[int, str] = {}
    while True:
        ready = select([0, ends], [], [])[0]
        if ends in ready:
            os.read(ends, 4096)
            tell_ends(status_files)
        if 0 in ready:
            line = sys.stdin.readline()
            if not line:
                os._exit(0)
            order: dict[str, Any] = json.loads(line)
            pid = os.fork()
            if pid == 0:
                become(order)
                for end in (ends, ended):
                    os.close(end)
                return order
            status_files[pid] = order["status"]
            os.write(1, b"%d\n" % pid)


def tell_ends(status_files: dict[int, str]) -> None:
    """Write the status of each worker that has ended, all at once."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            path = Path(status_files.pop(ended[0]))
            new = path.with_suffix(".new")
            new.write_text(str(os.waitstatus_to_exitcode(ended[1])))
            new.replace(path)


def become(order: dict[str, Any]) -> None:
    """Make this process what `python -m MODULE ARGUMENTS` would be."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    output, errors = (
        os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
        for name in ("log", "errors")
    )
    for number, stream in enumerate((nothing, output, errors)):
        os.dup2(stream, number)
        os.close(stream)
    if order["environment"] is not None:
        move_to(order["folder"], order["environment"])
    # A worker that restarts in place executes this again: without the template.
    sys.argv[1:] = order["arguments"]
    sys.orig_argv[1:] = ["-m", order["module"], *order["arguments"]]


def move_to(folder: str, environment: dict[str, str]) -> None:
    """Go to a folder, into an environment of its own, as if Python began there."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:1] = [folder, *environment.get("PYTHONPATH", "").split(os.pathsep)]
    importlib.invalidate_caches()
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))


if __name__ == "__main__":
    main: Callable[[], int] = importlib.import_module(sys.argv[1]).main
    take_orders()
    sys.exit(main())
