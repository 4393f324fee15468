"""The process of a detached job: a new interpreter that runs one job."""

from __future__ import annotations

import faulthandler
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from django_qless.worker.detached.records import Run
from django_qless.worker.parent_death import die_with_writer

if TYPE_CHECKING:
    from django_qless.core import Settlement
    from django_qless.worker.environment import Environment


def main(folder: str, message: str, death: str) -> None:
    """Run the job of the run in this folder; write its settlement to `message`.

    `death` is the pipe whose end tells that the run's parent has died.
    """
    die_with_writer(int(death))
    faulthandler.enable()
    answer = run(Run(Path(folder)))
    with open(int(message), "wb") as pipe:
        pipe.write(answer)


def run(folder: Run) -> bytes:
    """Run the job; return its packed settlement."""
    from django_qless.core import Reserved
    from django_qless.exceptions import ShuttingDown
    from django_qless.worker.execution import Execution
    from django_qless.worker.interrupt import interrupt
    from django_qless.worker.pools.fork import packed
    from django_qless.worker.sandbox import Sandboxes
    from django_qless.worker.status_report import title

    order = folder.order
    reserved = Reserved(*order["job"])
    sandboxes = Sandboxes(order.get("sandbox"))
    title.worker = order["worker"]
    try:
        # If it comes while the project is loaded, nothing of the job has happened.
        environment = load(*order["entry"])
        execution = Execution(
            environment, environment.client(order["alias"]), order["worker"], sandboxes
        )
        title(f"runs {reserved.klass} {reserved.jid}")
        signal.signal(
            signal.SIGTERM, lambda *_: interrupt(reserved.token, ShuttingDown())
        )
    except Exception as error:  # noqa: BLE001  the project cannot be loaded
        return packed(unloadable(reserved.jid, reserved.token, error))
    settlement = execution.perform(reserved)
    sandboxes.close()
    environment.leave_thread()
    sys.stdout.flush()
    return packed(settlement)


def load(function: str, *arguments: str) -> Environment:
    """Return the environment that the function of this dotted name makes."""
    module, _, name = function.rpartition(".")
    environment: Environment = getattr(import_module(module), name)(*arguments)
    return environment


def unloadable(jid: str, token: str, error: Exception) -> Settlement:
    """Return the settlement of a job whose project cannot be loaded."""
    import traceback

    from django_qless.core import Settlement
    from django_qless.worker import failure_report
    from django_qless.worker.pools.outcomes import CRASH_LIMIT

    traceback.print_exc()
    message = failure_report.message_of(error)
    args = CRASH_LIMIT, failure_report.group_of(error), message
    return Settlement(jid, token, "crash", args, None)
