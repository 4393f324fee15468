"""Jobs for the tests of the helpers."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from django_qless import Fail, Retry, current_job, job
from tests.jobs_app.models import Feed

#: What jobs have done, in order.
done: list[Any] = []


@job("notes")
def note(text: Any, *, mark: str = "") -> Any:
    """Say that it has run."""
    done.append(text)
    return text


@job
async def anote(text: Any) -> Any:
    done.append(text)
    return text


@job
async def atitle(feed: Feed) -> str:
    fresh = await Feed.objects.aget(pk=feed.pk)
    done.append(fresh.title)
    return fresh.title


@job(retries=2, backoff=3600)
def third_time() -> str:
    """Fail twice."""
    attempt = current_job().attempt  # type: ignore[union-attr]
    done.append(attempt)
    if attempt < 3:
        raise ValueError(f"attempt {attempt}")
    return "at last"


@job(retries=0)
def hopeless() -> None:
    raise LookupError("never")


@job
def wishes() -> str:
    """Ask for another attempt, once."""
    if current_job().attempt == 1:  # type: ignore[union-attr]
        raise Retry(delay=60, message="later")
    return "granted"


@job
def gives_up() -> None:
    raise Fail("bad-input", "no such file")


@job
def outer() -> None:
    """Enqueue others: one that is ready, one for later."""
    running = current_job()
    assert running is not None
    running.progress(0.5, "half")
    running.log("looked", at="itself")
    note.delay("inner")
    note.using(delay=7200).delay("later")
    done.append("outer")


@job
def again() -> None:
    """Enqueue itself for ever."""
    again.delay()


@job
def moves() -> str:
    """Go on in another queue, once."""
    running = current_job()
    assert running is not None
    done.append(running.queue)
    if running.queue == "default":
        running.move_to("second")
    return "moved"


@job
def interrupts() -> None:
    raise KeyboardInterrupt


@job
def cancels_itself() -> None:
    from django_qless import jobs

    jobs[current_job().jid].cancel()  # type: ignore[union-attr]


@job
def creates(title: str) -> int:
    """Write a row in a transaction, and leave another one open."""
    with transaction.atomic():
        feed = Feed.objects.create(title=title)
    transaction.atomic().__enter__()
    Feed.objects.create(title="never")
    return feed.pk


@job
class Steps:
    """A class job."""

    @staticmethod
    def first(job: Any) -> None:
        done.append(("first", job["n"]))
        job["n"] += 1
        job.complete("second")

    @staticmethod
    def second(job: Any) -> None:
        done.append(("second", job["n"]))


@job
def nests() -> None:
    """Enqueue one that fails."""
    hopeless.delay()


@job
def chain(left: int) -> None:
    """Enqueue the next one for an hour later."""
    done.append(left)
    if left > 1:
        chain.using(delay=3600).delay(left - 1)


@job
def gathers() -> None:
    """Note the results of the jobs that it waited for."""
    done.append(list(current_job().dependency_results().values()))  # type: ignore[union-attr]


@job
def spawns() -> None:
    """Enqueue one for which who waits for this one waits, too."""
    current_job().spawn([note.args("spawned")])  # type: ignore[union-attr]
    done.append("spawns")


@job
async def aspawns() -> int:
    """Do the same, and nothing with none."""
    running = current_job()
    assert running is not None
    assert await running.aspawn([]) == []
    return len(await running.aspawn([note.args("spawned")]))


@job("batches", entity=True, batch_size=2)
def asks_again(batch: dict[Any, list[Any]]) -> None:
    """Push to the same entities for ever."""
    for entity in batch:
        asks_again.push(entity, "more")


@job("lost-batches", entity=True, batch_size=2, retries=5, backoff=0)
def never_succeeds(batch: dict[Any, list[Any]]) -> None:
    raise LookupError("never")


@job
def travels_after_its_end() -> None:
    """Move time when its own lock is gone."""
    from django_qless import jobs
    from django_qless.testing import run_jobs

    jobs[current_job().jid].cancel()  # type: ignore[union-attr]
    done.append(len(run_jobs("notes", with_scheduled=60)))
