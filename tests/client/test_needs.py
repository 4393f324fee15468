"""What a job needs is read in pages, and with what its dependencies have spawned."""

from __future__ import annotations

import pytest

from django_qless.core import Client, Put, arguments
from tests.client.jobs import Make


def spawn(client: Client, parent: str, *jids: str) -> None:
    """Let a job spawn others while it runs; it stays held."""
    (job,) = client.settle("w", [], 1, [f"of-{parent}"]).jobs
    assert job.jid == parent
    children = [Put(jid, f"of-{jid}", "k", "{}") for jid in jids]
    client.spawn(parent, job.token, "w", children)


def put(client: Client, *jids: str) -> None:
    """Put jobs, each into another queue."""
    client.put_many("", [Put(jid, f"of-{jid}", "k", "{}") for jid in jids])


@pytest.fixture(params=[1, 2, 3, 5, 1000])
def paged(
    request: pytest.FixtureRequest, valkey: Make, monkeypatch: pytest.MonkeyPatch
) -> Client:
    """A client that reads a few at a time."""
    client: Client = valkey()
    put(client, "warm")
    monkeypatch.setattr(arguments, "MOST_ITEMS", request.param)
    return client


def test_a_page_after_the_other(paged: Client) -> None:
    jids = [f"j{number}" for number in range(6)]
    for jid in jids:
        paged.put("", "q", jid, "k", "{}")
    paged.put("", "q", "after", "k", "{}", depends=jids[:1])
    for jid in jids[1:]:
        paged.depends_on("after", jid)
    assert paged.needs("after") == jids
    assert paged.needs("j0") == []


def test_what_was_spawned_follows_the_one_that_spawned_it(paged: Client) -> None:
    for jid in ("a", "b", "c"):
        paged.put("", f"of-{jid}", jid, "k", "{}")
    spawn(paged, "a", "a1")
    spawn(paged, "a1", "a1x")
    spawn(paged, "b", "b1")
    paged.put("", "q", "after", "k", "{}", depends=["a"])
    for jid in ("b", "c"):
        paged.depends_on("after", jid)
    assert paged.needs("after") == ["a", "a1", "a1x", "b", "b1", "c"]
    assert paged.needs("a") == []


def test_many_that_were_spawned_are_read_in_pages_too(valkey: Make) -> None:
    client = valkey()
    put(client, "a", "b")
    children = [f"a{number}" for number in range(1_001)]
    spawn(client, "a", *children)
    spawn(client, "a3", "a3x")
    client.put("", "q", "after", "k", "{}", depends=["a", "b"])
    expected = ["a", *children[:4], "a3x", *children[4:], "b"]
    assert client.needs("after") == expected
