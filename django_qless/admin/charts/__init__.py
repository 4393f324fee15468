"""Charts that the server draws: SVG, with what they show beside them as a table.

A chart is data that `parts/chart_….html` shows:

    {% include "admin/django_qless/parts/chart_throughput.html" with chart=chart %}
"""

from __future__ import annotations

from django_qless.admin.charts.histogram import Histogram, histogram
from django_qless.admin.charts.recent import Recent, recent
from django_qless.admin.charts.throughput import ThroughputChart, throughput

__all__ = [
    "Histogram",
    "Recent",
    "ThroughputChart",
    "histogram",
    "recent",
    "throughput",
]
