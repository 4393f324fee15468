"""A trace goes on in the jobs that were enqueued in it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import override_settings
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from django_qless import job, jobs, workflow
from django_qless.conf.connections import connections
from django_qless.core import Client
from django_qless.core.exceptions import NotPermitted
from django_qless.enqueue.context_propagation import MEMBER
from django_qless.exceptions import Retry
from django_qless.monitoring import tracing
from tests.real_servers import Server

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))

Spans = Callable[[], dict[str, ReadableSpan]]


@job(retries=1)
def traced(how: str = "") -> str:
    if how == "fail":
        raise ValueError("why")
    if how == "retry":
        raise Retry(delay=0)
    return f"{otel.get_current_span().get_span_context().span_id:x}"


@job
async def traced_async() -> None:
    with provider.get_tracer("test").start_as_current_span("inner"):
        pass


def short(name: str) -> str:
    return name.replace(f"{__name__}.", "")


@pytest.fixture
def spans(server: Server, qless: Any, monkeypatch: Any) -> Iterator[Spans]:
    """The finished spans by name; of jobs of an alias with tracing."""
    monkeypatch.setattr(tracing, "tracer", provider.get_tracer("django_qless"))
    exporter.clear()
    tracing_on = {
        "CONTEXT": ["django_qless.monitoring.tracing.TraceContext"],
        "MIDDLEWARE": ["django_qless.monitoring.tracing.trace"],
    }
    with override_settings(QLESS={"default": {"LOCATION": server.url, **tracing_on}}):
        yield lambda: {short(span.name): span for span in exporter.get_finished_spans()}


def test_enqueue_wait_and_run_are_one_trace(
    spans: Spans, each_work: Callable[..., int]
) -> None:
    with provider.get_tracer("test").start_as_current_span("request") as request:
        handle = traced.delay()
        traced_async.delay()
    assert each_work() == 2
    found = spans()
    trace_id = request.get_span_context().trace_id
    assert {span.context.trace_id for span in found.values()} == {trace_id}
    put, wait, run = (found[f"{what} traced"] for what in ("enqueue", "wait", "run"))
    assert put.parent.span_id == request.get_span_context().span_id
    assert wait.parent.span_id == run.parent.span_id == put.context.span_id
    assert (put.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert put.start_time <= wait.start_time <= wait.end_time <= run.start_time
    assert run.attributes["messaging.message.id"] == handle.jid
    assert run.attributes["messaging.destination.name"] == "default"
    assert run.attributes["qless.attempt"] == 1
    # The span was the current one in the job, also in a coroutine.
    assert handle.result(timeout=0) == f"{run.context.span_id:x}"
    inner = found["inner"]
    assert inner.parent.span_id == found["run traced_async"].context.span_id
    assert not otel.get_current_span().get_span_context().is_valid


def test_a_failure_is_an_error_and_a_retry_is_none(
    spans: Spans, work: Callable[..., int]
) -> None:
    traced.using(retries=0).delay("fail")
    assert work() == 1
    run = spans()["run traced"]
    assert run.status.status_code is StatusCode.ERROR
    assert run.status.description == "ValueError: why"
    assert [event.name for event in run.events] == ["exception"]
    exporter.clear()
    traced.delay("retry")
    assert work() == 2
    finished = exporter.get_finished_spans()
    runs = [span for span in finished if span.name.startswith("run ")]
    assert [span.attributes["qless.attempt"] for span in runs] == [1, 2]
    assert {span.status.status_code for span in runs} == {StatusCode.UNSET}
    # The second run did not wait since the job was enqueued.
    assert len([span for span in finished if span.name.startswith("wait ")]) == 1


def test_a_run_is_linked_to_its_dependencies(
    spans: Spans, work: Callable[..., int]
) -> None:
    first = traced.delay()
    traced_async.using(after=[first]).delay()
    assert work() == 2
    found = spans()
    [link] = found["run traced_async"].links
    assert link.context.span_id == found["enqueue traced"].context.span_id
    assert link.attributes["messaging.message.id"] == first.jid
    assert not found["run traced"].links


def test_steps_of_a_workflow_are_linked(
    spans: Spans, each_work: Callable[..., int]
) -> None:
    with workflow("steps") as steps:
        first = steps.add(traced.args())
        steps.add(traced_async.args(), after=[first])
    assert each_work() == 2
    found = spans()
    [link] = found["run traced_async"].links
    assert link.context.span_id == found["enqueue traced"].context.span_id


def test_a_job_without_a_trace_begins_one(
    spans: Spans, server: Server, work: Callable[..., int]
) -> None:
    connections["default"].put("", "default", "j", traced.name, '{"v":1,"args":[]}')
    assert work() == 1
    found = spans()
    assert found.keys() == {"run traced"}
    assert found["run traced"].parent is None


@pytest.mark.parametrize(
    ("at", "waits"),
    [
        # Nanoseconds from now: by a clock that is ahead of this one, and by its own.
        (10**15, True),
        (-(10**12), True),
        ("", False),
        ("-5", False),
        ("soon", False),
    ],
)
def test_a_wait_begins_when_the_job_was_enqueued_and_never_ends_before(
    at: str | int, waits: bool, spans: Spans, work: Callable[..., int]
) -> None:
    if isinstance(at, int):
        at = str(time.time_ns() + at)
    trace = json.dumps({tracing.ENQUEUED: at, "traceparent": "nonsense"})
    context = f'{{"{MEMBER}":{{"{tracing.NAME}":{trace}}}}}'
    connections["default"].put(
        *("", "default", "j", traced.name, '{"v":1,"args":[]}'), context=context
    )
    assert work() == 1
    found = spans()
    assert ("wait traced" in found) == waits
    if waits:
        wait = found["wait traced"]
        assert wait.start_time <= wait.end_time
        assert wait.start_time == int(at) or int(at) > wait.end_time
        assert wait.attributes["messaging.message.id"] == "j"


def test_of_many_dependencies_the_first_are_linked(
    spans: Spans, work: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "MOST_LINKS", 2)
    first = [traced.delay() for _ in range(3)]
    # One that was not traced has no span to link to.
    connections["default"].put("", "default", "untraced", traced.name, '{"v":1}')
    traced_async.using(after=first).delay()
    assert work() == 5
    assert len(spans()["run traced_async"].links) == 2
    exporter.clear()
    traced_async.using(after=[jobs["untraced"]]).delay()
    assert work() == 1
    assert spans()["run traced_async"].links == ()


def test_a_run_goes_on_though_its_links_are_not_known(
    spans: Spans, each_work: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(client: Client, jid: str) -> list[str]:
        raise NotPermitted("needs")

    monkeypatch.setattr(Client, "needs", refuse)
    handle = traced.delay()
    traced_async.delay()
    assert each_work() == 2
    assert handle.result(timeout=0)
    assert spans()["run traced"].links == spans()["run traced_async"].links == ()


def test_nothing_is_imported_where_it_is_not_used() -> None:
    """They need not even be installed. (redis-py imports OpenTelemetry if it is.)"""
    code = (
        "import os, sys; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'; "
        "gone = 'opentelemetry', 'prometheus_client', 'sentry_sdk'; "
        "sys.modules.update(dict.fromkeys(gone)); "
        "import django; django.setup(); import django_qless.runtime.environment, "
        "django_qless.urls, django_qless.worker.worker; "
        "print([n for n in sys.modules if n.endswith(('tracing', 'collector'))])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert told.stdout == "[]\n"
