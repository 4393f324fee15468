"""The settlement of a detached job by the record of its run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django_qless.core import Reserved
from django_qless.worker import failure_report
from django_qless.worker.pools import outcomes
from django_qless.worker.pools.fork import unpacked
from django_qless.worker.pools.shared_state import RUNNING, HeldJob

if TYPE_CHECKING:
    from django_qless.core import Settlement
    from django_qless.worker.detached.records import Run

PARENT_KILLED = (
    "The process that watched over the detached job was killed, and the job with it."
)

OUTPUT_HIDDEN = "Its output is hidden: the job has, or may have, sensitive values."


def held_job(order: dict[str, Any]) -> HeldJob:
    """Return the job of a run as the worker's parent knows those that it holds."""
    reserved = Reserved(*order["job"])
    now = time.monotonic()
    return HeldJob(
        slot=-1,
        state=RUNNING,
        jid=reserved.jid,
        token=reserved.token,
        # Only the time between them counts.
        started=now,
        taken=now - order["held"],
        hard=order["hard"],
        delay=order["delay"],
    )


def settlement_of(run: Run, order: dict[str, Any]) -> tuple[Settlement, bool]:
    """Return the settlement of a run that has ended, and whether a crash ended it.

    The end of a run that did not crash has been announced by its own process.
    """
    held, outcome, output = held_job(order), run.outcome, output_in_failure(run, order)
    jid, token, seconds = held.jid, held.token, held.seconds_held
    if not outcome:
        if not run.processes:
            # Its starter was killed before the parent was there.
            return outcomes.released(jid, token), False
        crash = outcomes.crashed(jid, token, PARENT_KILLED, output, seconds)
        return crash, True
    settlement = unpacked(Reserved(*order["job"]), outcome["message"].encode())
    if settlement:
        if settlement.held is not None:
            settlement = settlement._replace(held=seconds)
        return settlement, False
    if outcome["why"] == "overran":
        return outcomes.overran(held, run.processes.get("job", 0), output), True
    if outcome["why"]:
        return outcomes.released(jid, token, seconds), False
    return (
        outcomes.died(
            *(jid, token, run.processes.get("job", 0), outcome["status"], output),
            seconds_held=seconds,
        ),
        True,
    )


def output_in_failure(run: Run, order: dict[str, Any]) -> str:
    """Return the output for the job's failure message, without what is sensitive."""
    output = run.output
    return OUTPUT_HIDDEN if output and order.get("hides") else output


def end_in_words(run: Run) -> str:
    """Return how a run has ended, for people."""
    outcome = run.outcome
    if not outcome:
        return "its processes were killed"
    why = {
        "stopped": "stopped",
        "fenced": "killed: its lock was not renewed in time",
        "overran": "killed: its time was over",
    }.get(outcome["why"], "")
    if why:
        return why
    if outcome["status"] == 0:
        return "exit status 0"
    text = failure_report.crash_message(run.processes.get("job", 0), outcome["status"])
    return text.removesuffix(".")
