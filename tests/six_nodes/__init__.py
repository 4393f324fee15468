"""Six nodes under load: producers and workers of one alias whose namespaces are on them."""

from __future__ import annotations

#: One in each namespace.
QUEUES = ("orders", "mail", "report.daily")
