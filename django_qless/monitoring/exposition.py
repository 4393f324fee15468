"""The metrics as text, in the format that the scraper asks for."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from django_qless.monitoring.collector import QlessCollector


def exposition(aliases: Sequence[str], accept: str = "") -> tuple[bytes, str]:
    """Return the metrics of these aliases, and their content type.

    `accept` is the header of that name. Nothing else is in it: no metric of the process.
    """
    return encoded(QlessCollector(*aliases), accept)


def encoded(collector: Collector, accept: str) -> tuple[bytes, str]:
    """Return what a collector gives, and its content type."""
    registry = CollectorRegistry()
    registry.register(collector)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
