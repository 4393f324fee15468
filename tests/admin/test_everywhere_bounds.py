"""What every page costs at most: bytes, and nothing changed.

The same pages at full size, with their times: `python -m tests.admin.bounds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from tests.admin import bounds
from tests.admin.masses import SMALL, Masses
from tests.core.keyspace import snapshot
from tests.drawing import part
from tests.jobs_app.models import Feed

if TYPE_CHECKING:
    import redis
    from django.test import Client as Browser

    from django_qless.core import Client
    from tests.real_servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def feed() -> Feed:
    return Feed.objects.create(title="news")


@pytest.fixture
def masses(qless: Client, feed: Feed) -> Iterator[Masses]:
    """Many of everything, and what is largest of each kind."""
    with override_settings(ROOT_URLCONF=bounds.URLCONF):
        masses = Masses(qless, SMALL)
        masses.load(feed, Feed.objects.create(title="old"))
        yield masses


@pytest.fixture
def watching(server: Server) -> Iterator[redis.Redis]:
    """A client that looks at what the server is asked."""
    client = server.client(decode_responses=True)
    yield client
    client.close()


def there_are_so_many(masses: Masses, qless: Client) -> None:
    """Raises AssertionError if anything is missing. (To load the masses takes seconds.)"""
    assert len({queue.name for queue in qless.queues()}) >= SMALL.queues
    groups = qless.failure_groups(0, 1)
    assert groups.total_groups == SMALL.groups
    assert groups.total_jobs == SMALL.failed + 1
    assert qless.worker_views(0, 1).total >= SMALL.workers
    view = qless.job_view(masses.popular)
    assert view is not None
    assert view.dependents_total >= SMALL.dependents


def test_every_page(
    masses: Masses,
    feed: Feed,
    qless: Client,
    watching: redis.Redis,
    admin_browser: Browser,
) -> None:
    there_are_so_many(masses, qless)
    pages = bounds.pages(masses, feed)
    assert len(pages) > 100
    # By day every other page.
    chosen = part(list(pages), 2)
    large = f"queue_change {masses.large_queue}"
    pages = {name: pages[name] for name in {*chosen, large, "overview_changelist"}}
    admin_browser.get(pages["overview_changelist"])  # The core is loaded once.
    before = snapshot(watching)
    costs = {
        name: bounds.cost(watching, admin_browser, url) for name, url in pages.items()
    }
    assert {name: each.troubles for name, each in costs.items() if each.troubles} == {}
    assert snapshot(watching) == before
