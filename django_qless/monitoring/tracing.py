"""Traces with OpenTelemetry: enqueueing, waiting and running as spans of one trace.

    QLESS = {"default": {
        "CONTEXT": ["django_qless.monitoring.tracing.TraceContext"],
        "MIDDLEWARE": ["django_qless.monitoring.tracing.trace"],
    }}

Needs opentelemetry-api; the project sets up its SDK. The first lets the context of a
trace travel with jobs, the second makes the spans of their runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.utils.decorators import sync_and_async_middleware
from opentelemetry import context as otel_context
from opentelemetry import propagate
from opentelemetry import trace as otel
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from django_qless.core.exceptions import QlessError
from django_qless.enqueue.context_propagation import MEMBER, enqueueing
from django_qless.exceptions import Retry
from django_qless.worker.exception_groups import decisive

if TYPE_CHECKING:
    from django_qless.job_types.current import CurrentJob
    from django_qless.runtime.middleware import Run

tracer = otel.get_tracer("django_qless")

#: The name under which it travels, and the member with the time of enqueueing.
NAME, ENQUEUED = "trace", "at"

#: Dependencies that a run is linked to.
MOST_LINKS = 32


class TraceContext:
    """Makes a span when jobs are enqueued, and lets its context travel with them."""

    name = NAME

    def capture(self) -> dict[str, str]:
        """Return the context of a new span, and the time."""
        attributes = {"messaging.system": "qless", "qless.job": enqueueing.get()}
        span = tracer.start_span(
            f"enqueue {enqueueing.get()}",
            kind=SpanKind.PRODUCER,
            attributes=attributes,
        )
        carrier = {ENQUEUED: str(time.time_ns())}
        propagate.inject(carrier, otel.set_span_in_context(span))
        span.end()
        return carrier

    @contextmanager
    def restore(self, value: Mapping[str, str]) -> Iterator[None]:
        """Make the run of a job part of the trace."""
        token = otel_context.attach(propagate.extract(value))
        try:
            yield
        finally:
            otel_context.detach(token)


@sync_and_async_middleware
def trace(run: Run) -> Run:
    """Make a span for the wait of a job, and one around its run."""
    if not iscoroutinefunction(run):

        def around(job: CurrentJob) -> Any:
            with run_span(job) as span:
                if span.is_recording():
                    add_links(span, job)
                return run(job)

        return around

    async def aaround(job: CurrentJob) -> Any:
        with run_span(job) as span:
            if span.is_recording():
                await sync_to_async(add_links, thread_sensitive=False)(span, job)
            return await run(job)

    return aaround


@contextmanager
def run_span(job: CurrentJob) -> Iterator[otel.Span]:
    """Make the span of a run, the current one meanwhile, and before it that of the wait.

    An exception that is not a Retry makes it an error.
    """
    attributes: dict[str, str | int] = {
        "messaging.system": "qless",
        "messaging.destination.name": job.queue,
        "messaging.message.id": job.jid,
        "qless.job": job.name,
        "qless.attempt": job.attempt,
    }
    add_wait(job, attributes)
    with tracer.start_as_current_span(
        f"run {job.name}",
        kind=SpanKind.CONSUMER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            span.record_exception(error)
            if not isinstance(decisive(error), Retry):
                text = f"{type(error).__name__}: {error}"
                span.set_status(Status(StatusCode.ERROR, text))
            raise


def add_wait(job: CurrentJob, attributes: Mapping[str, Any]) -> None:
    """Add the span from enqueueing to the first run, a delay included."""
    since = carried(job.context).get(ENQUEUED, "")
    if job.attempt > 1 or not since.isdecimal():
        return
    began = min(int(since), time.time_ns())  # The clocks of two machines may differ.
    tracer.start_span(
        f"wait {job.name}", start_time=began, attributes=dict(attributes)
    ).end()


def add_links(span: otel.Span, job: CurrentJob) -> None:
    """Link a run to the spans that enqueued the jobs that it depended on.

    One call to the server, two for a job with dependencies. Without an answer: no links.
    """
    with suppress(QlessError):
        needed = job.client.needs(job.jid)[:MOST_LINKS]
        for each in job.client.multiget(needed) if needed else ():
            context = propagate.extract(carried(each.context))
            link = Link(
                otel.get_current_span(context).get_span_context(),
                {"messaging.message.id": each.jid},
            )
            if link.context.is_valid:
                span.add_link(link.context, link.attributes)


def carried(context: Mapping[str, Any]) -> dict[str, str]:
    """Return what travels with a job for its trace; empty without any."""
    found = (context.get(MEMBER) or {}).get(NAME)
    return found if isinstance(found, dict) else {}
