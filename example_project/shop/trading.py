"""The shop's trade: enqueues all that the jobs of the shop are for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django_qless import JobHandle, job
from shop.jobs import export, fetch_price
from shop.models import Order

TAG = "shop"

ORDERS = 12
VERSIONS = 8
"""Versions that come of each order before a worker gets to it."""

BAD_ORDER = "O-BAD"
LATE_ORDER = "O-LATE"

QUESTIONS = 60
ARTICLES = ("tea", "coffee", "milk", "sugar")

#: A supplier without a network: urlopen reads files as well.
SUPPLIER = Path(__file__).resolve().parent / "prices.json"

LARGE_TENANT = "large"
#: How many files each tenant asks for, the large one first.
TENANTS = {LARGE_TENANT: 200, "ann": 10, "bob": 10, "cem": 10}


def push_versions(orders: int = ORDERS) -> int:
    """Pushes new versions of orders; returns how many.

    One more order gets a version that can never be processed.
    """
    rows = [
        Order.objects.get_or_create(number=f"O-{number}")[0]
        for number in range(1, orders + 1)
    ]
    bad = Order.objects.get_or_create(number=BAD_ORDER)[0]
    Order.sync.push_many([item_of(bad, 1, total=-1)])
    return push_new(rows) + 1


def push_new(orders: Iterable[Order]) -> int:
    """Pushes the next versions of these, the last one first; returns how many."""
    rows = list(orders)
    items = [
        item_of(row, row.version + step, total=100 * (row.version + step))
        for step in range(VERSIONS, 0, -1)
        for row in rows
    ]
    Order.sync.push_many(items)
    return len(items)


def push_without_total() -> None:
    """Pushes a version that is tried again and again: its total is not known yet."""
    late = Order.objects.get_or_create(number=LATE_ORDER)[0]
    Order.sync.push_many([item_of(late, 1, total=None)])


def item_of(row: Order, version: int, total: int | None) -> dict[str, Any]:
    """Returns what `push_many` takes: the score is the version."""
    payload = {"version": version, "total": total}
    return {"entity": row, "payload": payload, "score": version}


def ask_for_prices(questions: int = QUESTIONS) -> list[JobHandle[int]]:
    """Enqueues questions, more than the supplier allows in a second."""
    articles = itertools.islice(itertools.cycle(ARTICLES), questions)
    asking = fetch_price.using(tags=[TAG])
    return asking.enqueue_many(
        asking.args(SUPPLIER.as_uri(), article) for article in articles
    )


def ask_for_exports(seconds: float = 0.0) -> list[JobHandle[None]]:
    """Enqueues the files of all tenants: first those of the large one."""

    def asked_for() -> Iterator[tuple[str, int]]:
        for tenant, files in TENANTS.items():
            yield from ((tenant, number) for number in range(1, files + 1))

    exporting = export.using(tags=[TAG])
    return exporting.enqueue_many(
        exporting.args(tenant, number, seconds) for tenant, number in asked_for()
    )


@job("trade", unique=True, retries=0)
def trade() -> None:
    """Has all of it happen once, for visitors of the admin."""
    push_versions()
    push_without_total()
    ask_for_prices(10 * QUESTIONS)
    ask_for_exports(seconds=0.1)
