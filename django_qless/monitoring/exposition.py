"""The metrics as text, in the format that the scraper asks for."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from django_qless.monitoring.collector import QlessCollector


def exposition(aliases: Sequence[str], accept: str = "") -> tuple[bytes, str]:
    """Return the metrics of these aliases, and their content type.

    `accept` is the header of that name. Nothing else is in it: no metric of the process.
    """
    registry = CollectorRegistry()
    registry.register(QlessCollector(*aliases))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
