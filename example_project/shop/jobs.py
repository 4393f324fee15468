"""Jobs within limits: at a rate, and in turns between tenants."""

from __future__ import annotations

import json
import time
from urllib.request import urlopen

from django_qless import Fail, job
from shop.models import Export, Price

RATE = 20


@job("prices", rate=f"{RATE}/s")
def fetch_price(url: str, article: str) -> int:
    """Asks a supplier, who allows 20 questions a second, for a price in cents."""
    with urlopen(url, timeout=10) as response:
        cents = json.load(response).get(article)
    if cents is None:
        raise Fail("unknown-article", f"{url} has no {article}")
    Price.objects.create(article=article, cents=cents)
    return int(cents)


@job("exports", fair_by="tenant")
def export(tenant: str, number: int, seconds: float = 0.0) -> None:
    """Makes one of the files that a tenant has asked for; tenants take turns."""
    time.sleep(seconds)
    Export.objects.create(tenant=tenant, number=number)
