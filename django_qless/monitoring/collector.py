"""A collector for prometheus-client: the figures of aliases as metrics.

    from prometheus_client import REGISTRY
    from django_qless.monitoring.collector import QlessCollector

    REGISTRY.register(QlessCollector())     # beside the metrics of the project's own

The view and the command have it in a registry of its own. All values are read from the
queue's server when they are asked for, so every process that answers says the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)

from django_qless import conf
from django_qless.core.exceptions import QlessError
from django_qless.core.states import IN_QUEUE
from django_qless.monitoring.buckets import cumulative
from django_qless.monitoring.snapshot import MOST_QUEUES, SPAN, outboxes, snapshots
from django_qless.operations.workers import ServedQueues, is_alive
from django_qless.worker.server_checks import risks

if TYPE_CHECKING:
    from django_qless.core.commands.operations import WorkerCounts
    from django_qless.core.listings import Throughput
    from django_qless.monitoring.snapshot import Snapshot

OTHERS = "(others)"
"""The label of what has no place of its own."""

MOST_GROUPS = 100
"""Failure groups with a label of their own: the largest."""

WORKER_STATES = ("running", "quiet", "draining", "stopping")

EVENTS = ("put", "started", "completed", "failed")


class Families:
    """Metrics under way: each is made when its first sample comes."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def family(self, kind: Any, name: str, text: str, labels: Sequence[str]) -> Any:
        """Return the metric of this name."""
        if name not in self._made:
            self._made[name] = kind(name, text, labels=("alias", *labels))
        return self._made[name]

    def gauge(
        self,
        name: str,
        text: str,
        alias: str,
        value: float,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Add a sample of a gauge."""
        labels = labels or {}
        family = self.family(GaugeMetricFamily, f"qless_{name}", text, [*labels])
        family.add_metric((alias, *labels.values()), value)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._made.values())


class QlessCollector:
    """The metrics of these aliases, by default of all."""

    def __init__(self, *aliases: str) -> None:
        self.aliases = aliases

    def describe(self) -> list[Metric]:
        """Return nothing: to be registered must not ask a server."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; of a server that does not answer `qless_up` alone."""
        families = Families()
        for alias in self.aliases or conf.alias_names():
            add_outboxes(alias, families)
            text = "1 if the alias's server answered, else 0."
            try:
                snapshot = snapshots.get(alias)
            except QlessError:
                families.gauge("up", text, alias, 0)
                continue
            families.gauge("up", text, alias, 1)
            AliasMetrics(alias, snapshot, families).add()
        return iter(families)


class AliasMetrics:
    """Adds the figures of one alias to metrics."""

    def __init__(self, alias: str, snapshot: Snapshot, families: Families) -> None:
        self.alias = alias
        self.snapshot = snapshot
        self.families = families
        self.status = snapshot.status

    def add(self) -> None:
        """Add all of them."""
        for add in (
            *(self.queues, self.totals, self.failures, self.workers, self.today),
            *(self.limits, self.entities, self.server),
        ):
            add()

    def gauge(self, name: str, text: str, value: float, **labels: str) -> None:
        """Add a sample of this alias."""
        self.families.gauge(name, text, self.alias, value, labels)

    def queues(self) -> None:
        """Add the queues: jobs by state, lag, throughput, pauses."""
        served = ServedQueues(self.status.workers, self.status.now)
        figures = zip(
            self.status.queues,
            self.snapshot.failed_of,
            self.snapshot.throughput,
            strict=False,
        )
        for queue, failed, throughput in figures:
            name, counts = queue.counts.name, queue.counts
            for state in IN_QUEUE:
                self.queue_jobs(getattr(counts, state), name, state)
            self.queue_jobs(failed, name, "failed")
            self.lag(queue.lag, name)
            self.throughput(throughput, name)
            self.gauge(
                "queue_paused", "1 if paused, else 0.", counts.paused, queue=name
            )
            self.gauge(
                "queue_served",
                "1 if a living worker takes jobs of the queue, else 0.",
                served.serves(name),
                queue=name,
            )
            self.gauge("queue_schedules", "Schedules.", counts.recurring, queue=name)
            text = "Waiting jobs that limits hold back."
            self.gauge("queue_held_back_jobs", text, counts.held_back, queue=name)
        if rest := self.status.queues[MOST_QUEUES:]:
            for state in IN_QUEUE:
                sum_of = sum(getattr(queue.counts, state) for queue in rest)
                self.queue_jobs(sum_of, OTHERS, state)
            self.lag(max(queue.lag for queue in rest), OTHERS)

    def queue_jobs(self, value: float, queue: str, state: str) -> None:
        """Add the number of a queue's jobs in a state."""
        text = "Jobs by queue and state, those that have failed among them."
        self.gauge("queue_jobs", text, value, queue=queue, state=state)

    def lag(self, seconds: float, queue: str) -> None:
        """Add the lag of a queue."""
        text = "Seconds for which the oldest ready job has waited; 0 without one."
        self.gauge("queue_lag_seconds", text, seconds, queue=queue)

    def throughput(self, found: Throughput, queue: str) -> None:
        """Add what a queue does in a minute."""
        text = f"Jobs per minute, as the mean of the last {SPAN} whole minutes."
        for event in EVENTS:
            [number] = getattr(found, event)
            self.gauge(
                "queue_jobs_per_minute", text, number / SPAN, queue=queue, event=event
            )

    def totals(self) -> None:
        """Add the figures of the whole namespace, whose number of labels is fixed."""
        status = self.status
        self.gauge("queues", "Queues that are known.", len(status.queues))
        text = "Jobs by state, in all queues together."
        for state in IN_QUEUE:
            total = sum(getattr(queue.counts, state) for queue in status.queues)
            self.gauge("jobs", text, total, state=state)
        self.gauge("jobs", text, sum(status.failures.values()), state="failed")
        # Those that are kept: `jobs-history` and `jobs-history-count` limit them.
        self.gauge("jobs", text, self.snapshot.completed, state="complete")
        lag = max((queue.lag for queue in status.queues), default=0.0)
        self.gauge("lag_seconds", "The greatest lag of a queue.", lag)
        for event in EVENTS[1:]:
            [number] = getattr(self.snapshot.total, event)
            text = f"Jobs per minute of all queues, over {SPAN} whole minutes."
            self.gauge("jobs_per_minute", text, number / SPAN, event=event)
        text = "Seconds that it took to read these figures."
        self.gauge("snapshot_seconds", text, self.snapshot.seconds)

    def failures(self) -> None:
        """Add the failure groups, the largest first."""
        text = "Failed jobs by failure group."
        largest = sorted(
            self.status.failures.items(), key=lambda item: (-item[1], item[0])
        )
        for group, number in largest[:MOST_GROUPS]:
            self.gauge("failed_jobs", text, number, group=group)
        if rest := largest[MOST_GROUPS:]:
            total = sum(number for _, number in rest)
            self.gauge("failed_jobs", text, total, group=OTHERS)
        self.gauge("failure_groups", "Failure groups.", len(largest))

    def workers(self) -> None:
        """Add the workers by state. (Their names change with each start.)"""
        by_state = Counter(
            worker_state(worker, self.status.now) for worker in self.status.workers
        )
        alive = [
            worker
            for worker in self.status.workers
            if is_alive(worker, self.status.now)
        ]
        for state in (*WORKER_STATES, "lost"):
            self.gauge("workers", "Workers by state.", by_state[state], state=state)
        places = sum(concurrency(worker) for worker in alive)
        self.gauge("worker_concurrency", "Jobs that living workers can run.", places)
        held = sum(worker.jobs for worker in alive)
        self.gauge("worker_jobs", "Jobs that living workers hold.", held)

    def today(self) -> None:
        """Add durations and counters since midnight, which begin again at midnight."""
        names = [queue.counts.name for queue in self.status.queues]
        for name, stats in zip(names, self.snapshot.today, strict=False):
            for kind, lengths in (("wait", stats.wait), ("run", stats.run)):
                if not lengths.count:
                    continue  # A quantile of nothing would be NaN.
                self.families.family(
                    GaugeHistogramMetricFamily,
                    f"qless_queue_{kind}_today_seconds",
                    "Durations since midnight UTC, when it begins again.",
                    ["queue"],
                ).add_metric(
                    (self.alias, name),
                    cumulative(lengths),
                    gsum_value=lengths.count * lengths.mean,
                )
            text = "Events since midnight UTC, when it begins again."
            for event, number in (
                ("retried", stats.retried),
                ("lock_lost", stats.retries),
                ("failed", stats.failures),
            ):
                self.gauge("queue_today", text, number, queue=name, event=event)

    def limits(self) -> None:
        """Add the queues' limits."""
        ending = "-max-concurrency"
        names = [queue.counts.name for queue in self.status.queues[:MOST_QUEUES]]
        for name in names:
            limit = self.snapshot.config.get(name + ending)
            if limit is not None and (number := float(limit)) > 0:
                text = "The most jobs of the queue that may run at once."
                self.gauge("queue_max_concurrency", text, number, queue=name)

    def entities(self) -> None:
        """Add the entities of queues that have them, by what is to happen to them."""
        for counts in self.snapshot.entities:
            for state, number in (
                ("fresh", counts.fresh),
                ("retrying", counts.retries),
                ("running", counts.busy),
                ("dead", counts.dead),
            ):
                text = "Entities by queue and state."
                self.gauge("entities", text, number, queue=counts.queue, state=state)

    def server(self) -> None:
        """Add memory, eviction and connections of the server."""
        info = self.snapshot.server
        if not info:
            return
        for name, member, text in SERVER_GAUGES:
            if isinstance(value := info.get(member), int):
                self.gauge(f"server_{name}", text, value)
        for name, member, text in SERVER_COUNTERS:
            if isinstance(value := info.get(member), int):
                full = f"qless_server_{name}"
                family = self.families.family(CounterMetricFamily, full, text, [])
                family.add_metric((self.alias,), value)
        text = "States that may lose jobs, or stop the server from taking them."
        self.gauge("server_risks", text, len([*risks(info)]))
        about = {
            "engine": "valkey" if "valkey_version" in info else "redis",
            "version": str(info.get("valkey_version", info.get("redis_version", ""))),
            "maxmemory_policy": str(info.get("maxmemory_policy", "")),
            "role": str(info.get("role", "")),
        }
        self.families.family(
            InfoMetricFamily, "qless_server", "The server.", []
        ).add_metric((self.alias,), about)


SERVER_GAUGES = (
    ("memory_bytes", "used_memory", "Memory that the server uses."),
    ("memory_max_bytes", "maxmemory", "Memory that it may use; 0 for no limit."),
    ("clients", "connected_clients", "Connections to the server."),
    ("blocked_clients", "blocked_clients", "Connections that wait for something."),
    ("uptime_seconds", "uptime_in_seconds", "Seconds since its start."),
    ("aof", "aof_enabled", "1 if it keeps an append-only file, else 0."),
)
SERVER_COUNTERS = (
    (
        "evicted_keys",
        "evicted_keys",
        "Keys thrown away for want of memory since its start.",
    ),
    ("commands", "total_commands_processed", "Commands executed since its start."),
)


def add_outboxes(alias: str, families: Families) -> None:
    """Add what waits in outboxes, also while the server is away."""
    for found in outboxes.get(alias):
        labels = {"database": found.database}
        if found.error is None:
            text = "Entries that wait in the outbox of a database."
            families.gauge("outbox_entries", text, alias, found.entries, labels)
            text = "Jobs that these enqueue."
            families.gauge("outbox_jobs", text, alias, found.jobs, labels)
            text = "Seconds since the oldest of them was written; 0 without one."
            families.gauge("outbox_oldest_seconds", text, alias, found.oldest, labels)


def worker_state(worker: WorkerCounts, now: float) -> str:
    """Return one of WORKER_STATES; or lost, without a heartbeat lately."""
    if not is_alive(worker, now):
        return "lost"
    state = (worker.info or {}).get("state", "running")
    return state if state in WORKER_STATES else "running"


def concurrency(worker: WorkerCounts) -> int:
    """Return how many jobs a worker can run; 0 if it does not say."""
    number = (worker.info or {}).get("concurrency")
    return number if type(number) is int else 0
