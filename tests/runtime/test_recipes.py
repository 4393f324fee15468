"""The guide's middleware: one refuses, postpones and skips runs, one reports slow ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from django.test import override_settings

from django_qless import job
from tests.docs.pages import pages
from tests.real_servers import Server

GUIDE = "docs/guides/hooks.md"

ran: list[str] = []


@job(retries=1, backoff=0)
def bill() -> str:
    ran.append("bill")
    return "billed"


@job(retries=1, backoff=0)
async def abill() -> str:
    ran.append("abill")
    return "billed"


def postpone_or_skip(run: Any) -> Any:
    """What the guide's table says in place of a refusal."""

    def around(current: Any) -> Any:
        tenant = current.app_data.get("tenant")
        if tenant == "initech":
            return current.move_to(current.queue, delay=300)
        return None if tenant == "hooli" else run(current)

    return around


@pytest.fixture
def recipes(
    qless: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """The guide's middleware, around all jobs."""
    [page] = [page for page in pages() if page.name == GUIDE]
    code = "".join(
        block.code for block in page.blocks if block.file == "shop/middleware.py"
    )
    module = ModuleType("guide_middleware")
    exec(compile(code, GUIDE, "exec"), vars(module))
    vars(module)["postpone_or_skip"] = postpone_or_skip
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = ("report_slow_runs", "ask_for_tenant", "postpone_or_skip")
    middleware = [f"{module.__name__}.{name}" for name in names]
    options = {"LOCATION": server.url, "MIDDLEWARE": middleware}
    ran.clear()
    with override_settings(QLESS={"default": options}):
        yield module


def enqueued(job: Any, tenant: str) -> Any:
    return job.using(app_data={"tenant": tenant}).delay()


@pytest.mark.parametrize("job", [bill, abill])
def test_it_lets_run_refuses_postpones_and_skips(
    recipes: ModuleType, each_work: Callable[..., int], job: Any
) -> None:
    plain, runs = job.delay(), enqueued(job, "widgets")
    refused, paused = enqueued(job, "acme"), enqueued(job, "initech")
    skipped = enqueued(job, "hooli")
    assert each_work() == 5
    assert len(ran) == 2
    assert plain.result() == runs.result() == "billed"
    failure = refused.refresh().failure
    assert failure.group == "refused"
    assert "its account is closed" in failure.message
    assert (skipped.refresh().state, skipped.result()) == ("complete", None)
    assert (paused.refresh().state, paused.remaining) == ("scheduled", 1)


@pytest.mark.parametrize("job", [bill, abill])
def test_it_reports_slow_runs(
    recipes: ModuleType,
    each_work: Callable[..., int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    job: Any,
) -> None:
    job.delay()
    each_work()
    assert not [line for line in caplog.records if line.name == recipes.__name__]
    # Each look at the clock is a minute later.
    minutes = iter(range(0, 6000, 60))
    monkeypatch.setattr(recipes, "time", ModuleType("time"))
    recipes.time.monotonic = lambda: next(minutes)  # type: ignore[attr-defined]
    handle = job.delay()
    each_work()
    [line] = [line for line in caplog.records if line.name == recipes.__name__]
    assert handle.jid in line.getMessage()
