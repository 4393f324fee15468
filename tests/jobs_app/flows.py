"""Jobs of workflows: they note that they ran, fail when told to, spawn, and gather."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from django_qless import Fail, current_job, job

#: What ran, in order; and the names that fail.
ran: list[str] = []
failing: set[str] = set()


@job
def step(name: str) -> str:
    if name in failing:
        raise Fail("told-to", name)
    ran.append(name)
    return name


@job("side")
def aside(name: str) -> str:
    ran.append(name)
    return name


@job
def silent() -> None:
    pass


@job
def gather(**options: Any) -> dict[str, Any]:
    ran.append("gather")
    return current_job().dependency_results(**options)


@job
async def agather(**options: Any) -> dict[str, Any]:
    return await current_job().adependency_results(**options)


@job
def spawning(*names: str) -> list[str]:
    handles = current_job().spawn([step.args(name) for name in names])
    ran.append("spawning")
    return [handle.jid for handle in handles]


@job
def spawning_fixed(*names: str) -> list[tuple[str, bool]]:
    """Spawn jobs with these ids; return which of them are new."""
    jobs = [aside.using(jid=name).args(name) for name in names]
    handles = current_job().spawn(jobs)
    return [(handle.jid, handle.created) for handle in handles]


@job
class Spawning:
    """A class job that has to do with others."""

    @staticmethod
    def process(job: Any) -> None:
        results = job.dependency_results()
        job.spawn([step.args(f"{name} again") for name in results.values()])
        ran.append("spawning")


@job
async def aspawning(*names: str) -> list[str]:
    handles = await current_job().aspawn([step.args(name) for name in names])
    ran.append("aspawning")
    return [handle.jid for handle in handles]


@job
def nested(depth: int) -> int:
    """Spawn one like itself, to this depth."""
    ran.append(f"nested {depth}")
    if depth:
        current_job().spawn([nested.args(depth - 1)])
    return depth


@job
def spawning_in_a_transaction(*, fail: bool = False) -> str:
    with transaction.atomic():
        [handle] = current_job().spawn([step.args("at commit")])
        assert handle.pending
        if fail:
            transaction.set_rollback(True)
    return handle.state


@job(unique=True)
def only_one() -> None:
    pass


@job(on_failure="cancel")
def canceling(name: str) -> None:
    ran.append(name)


@job
def ahead() -> str:
    ran.append("ahead")
    return "ahead"


@job(after="ahead")
def behind(name: str) -> None:
    ran.append(f"behind {name}")
