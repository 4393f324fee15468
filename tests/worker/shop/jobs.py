"""Jobs that tell the ledger what they see."""

from __future__ import annotations

import os

from django.contrib.auth.models import Group
from django.db import connection

from django_qless import Fail, Retry, current_job, job
from tests.worker.ledger import note, wait_at


def tell(*words: object) -> None:
    note(os.environ["LEDGER"], *words)


@job
def greet(name: str, *, greeting: str = "Hello") -> str:
    tell("greet", name)
    return f"{greeting}, {name}"


@job(queue="slow")
def stay(name: str) -> None:
    tell("running", name, os.getpid())
    wait_at(os.environ["GATE"])
    tell("over", name)


@job
def go_on(queue: str) -> None:
    """Move on into this queue, and stay until the gate is open."""
    running = current_job()
    assert running is not None
    if running.queue == queue:
        tell("arrived", queue)
        return
    running.move_to(queue)
    tell("running", queue, os.getpid())
    wait_at(os.environ["GATE"])


@job(retries=1, backoff=0)
def break_twice() -> None:
    running = current_job()
    assert running is not None
    tell("attempt", running.attempt)
    raise ValueError("no")


@job(retries=1)
def once_more() -> None:
    running = current_job()
    assert running is not None
    tell("attempt", running.attempt)
    if running.attempt == 1:
        raise Retry(delay=0)


@job
def give_up() -> None:
    raise Fail("bad-input", "no such file")


@job
def count_rows() -> int:
    """Use the database, and leave a transaction open."""
    connection.set_autocommit(False)
    return Group.objects.count()


@job
async def wait_a_little() -> str:
    return "waited"
