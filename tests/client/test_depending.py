"""Unique puts, policies for failures, spawned jobs, what a job needs: through the client."""

from __future__ import annotations

import asyncio
import json

import pytest

from django_qless.core import (
    AsyncClient,
    Client,
    DependencyCycle,
    HasDependents,
    LockLost,
    Put,
    PutMany,
    Settlement,
    WrongState,
)
from tests.client.conftest import NOW
from tests.client.jobs import Clock, pop, put
from tests.real_servers import Server


def end(client: Client, jid: str, token: str, *result: object) -> None:
    """Complete a job."""
    ends = [Settlement(jid, token, "complete", result)]
    assert client.settle("worker", ends, 0, []).refused == []


def test_the_job_that_holds_the_key_stands_for_the_others(client: Client) -> None:
    assert put(client, "a", unique="key") == "a"
    assert put(client, "b", unique="key") == "a"
    assert put(client, "b", unique="key", conflict="replace", priority=4) == "a"
    job = client.get("a")
    assert job is not None
    assert (job.unique, job.priority, job.on_failure) == ("key", 4, "block")
    assert client.get("b") is None
    items = [Put(jid, "mail", "k", "{}", unique="key") for jid in ("c", "d")]
    items.append(Put("e", "mail", "k", "{}", depends=["d"], absent=True))
    assert client.put_many("", items) == PutMany([], {"c": "a", "d": "a"})
    assert client.put_many("", items) == PutMany(["e"], {"c": "a", "d": "a"})
    assert client.needs("e") == ["a"]


def test_a_job_is_pushed_back(client: Client, at: Clock) -> None:
    for seconds in (0, 8):
        at(seconds)
        assert put(client, f"j{seconds}", unique="k", debounce=10) == "j0"
    assert client.due(["mail"])[0].scheduled == NOW + 18


def test_a_deadline_is_shown_and_kept(client: Client, at: Clock) -> None:
    at(0)
    put(client, "a", expires=10)
    job = client.get("a")
    assert job is not None
    assert job.deadline == NOW + 10
    at(20)
    assert client.settle("worker", [], 1, ["mail"]).jobs == []
    assert client.failed() == {"expired": 1}


def test_dependents_follow_by_their_policies(client: Client) -> None:
    put(client, "root")
    put(client, "cancel", depends=["root"], on_failure="cancel")
    put(client, "run", depends=["root"], on_failure="run")
    put(client, "block", depends=["root"])
    with pytest.raises(HasDependents):
        client.cancel("root")
    client.cancel("block")
    client.cancel("root")
    states = {job.jid: job.state for job in client.multiget(["cancel", "run"])}
    assert states == {"cancel": "canceled", "run": "waiting"}
    jid, token = pop(client)
    client.fail(jid, token, "group", "message")
    with pytest.raises(WrongState, match="run has failed already"):
        put(client, "late", depends=["run"], on_failure="cancel")


def test_a_job_spawns_and_its_dependents_have_all_results(client: Client) -> None:
    put(client, "root")
    put(client, "other")
    put(client, "after", depends=["root", "other"])
    taken = client.settle("worker", [], 2, ["mail"]).jobs
    tokens = {job.jid: job.token for job in taken}
    items = [Put(f"j{n}", "side", "k", "{}") for n in range(1_500)]
    assert client.spawn("root", tokens["root"], "worker", items) == ([], {})
    with pytest.raises(LockLost):
        client.spawn("root", "99", "worker", items)
    behind = [Put("x", "side", "k", "{}", depends=["after"])]
    with pytest.raises(DependencyCycle):  # `after` waits for all that is spawned.
        client.spawn("root", tokens["root"], "worker", behind)
    for jid, token in tokens.items():
        end(client, jid, token, json.dumps(jid), 60)
    while jobs := client.settle("worker", [], 250, ["side"]).jobs:
        ends = [
            Settlement(job.jid, job.token, "complete", (json.dumps(job.jid), 60))
            for job in jobs
        ]
        client.settle("worker", ends, 0, [])
    after = client.get("after")
    assert after is not None
    assert after.state == "waiting"
    names = ["root", *(f"j{n}" for n in range(1_500)), "other"]
    assert client.needs("after") == names
    assert client.results(names) == names
    assert client.results_text(["nosuch", "j7"]) == [None, '"j7"']
    assert client.needs("nosuch") == client.results([]) == []


def test_what_the_spawned_ones_spawn_is_needed_too(client: Client) -> None:
    put(client, "root")
    put(client, "after", depends=["root"])
    jid, token = pop(client)
    client.spawn(jid, token, "worker", [Put("a", "mail", "k", "{}")])
    end(client, jid, token)
    jid, token = pop(client)
    children = [Put(name, "mail", "k", "{}", absent=True) for name in ("b", "root")]
    assert client.spawn(jid, token, "worker", children).skipped == ["root"]
    assert client.needs("after") == ["root", "a", "b"]


def test_asynchronous_code_has_it_all(server: Server) -> None:
    async def body() -> None:
        client = AsyncClient(server.async_client())
        await client.put("", "mail", "root", "k", "{}", unique="key")
        await client.put("", "mail", "after", "k", "{}", depends=["root"])
        (job,) = (await client.settle("w", [], 1, ["mail"])).jobs
        await client.spawn("root", job.token, "w", [Put("a", "mail", "k", "{}")])
        assert await client.needs("after") == ["root", "a"]
        assert await client.results(["root"]) == [None]
        found = await client.put("", "mail", "b", "k", "{}", unique="key")
        assert found == "root"
        await client.aclose()

    asyncio.run(body())
