"""Six nodes under load: producers and workers of three aliases that are on them."""

from __future__ import annotations

#: One in each alias, by QLESS_ROUTES.
QUEUES = ("orders", "mail", "report.daily")
