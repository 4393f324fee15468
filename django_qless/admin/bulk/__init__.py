"""The same done to many jobs: to those ticked in a table, or to all that match a search.

It is asked first, with a count. Then it is done in chunks, one for each POST, so that a
hundred thousand jobs hold up neither the server of the queues nor a web worker; a browser
sends one POST after the other, at the rate that was chosen, and can stop at any time.
"""

from __future__ import annotations

from django_qless.admin.bulk.links import bulk_url, empty_url
from django_qless.admin.bulk.views import ROUTES, EmptyQueue

__all__ = ["ROUTES", "EmptyQueue", "bulk_url", "empty_url"]
