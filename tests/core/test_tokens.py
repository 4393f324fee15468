"""Fencing tokens come from the server's clock: what was drawn and forgotten is never drawn again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.core.caller import Core, Library
from tests.core.keyed import Keyed, settlement
from tests.real_servers import Server, available_kinds, poll

JIDS = [f"j{number:03}" for number in range(500)]
PART = 250  # jobs of one call at most
NOW = "*"


@contextmanager
def on(server: Server, library: Library) -> Iterator[Keyed]:
    with server.client(decode_responses=True) as client:
        library.load(client)
        yield Keyed(Core(client, library))


def take_all(keyed: Keyed, worker: str) -> dict[str, str]:
    """Reserve all jobs; return their tokens by jid."""
    taken = keyed.take(PART, worker=worker, now=NOW)
    taken += keyed.take(PART, worker=worker, now=NOW)
    return {job["jid"]: job["token"] for job in taken}


def refusals(keyed: Keyed, tokens: dict[str, str], worker: str) -> list[str]:
    """Complete jobs with these tokens; return the codes of the refusals."""
    ends = [settlement(jid, token, "complete") for jid, token in tokens.items()]
    codes = []
    for first in range(0, len(ends), PART):
        done = keyed.settle(ends[first : first + PART], worker=worker, now=NOW)
        codes += [code for _, code, _ in done.refused]
    return codes


def put_all(keyed: Keyed) -> None:
    keyed.put_many([{"jid": jid} for jid in JIDS], now=NOW)


def copy(first: Server, second: Server) -> None:
    """Make the second server a replica of the first, and promote it when it has all."""
    with first.client() as source, second.client() as replica:
        replica.execute_command("REPLICAOF", "127.0.0.1", first.port)
        poll(
            lambda: (
                replica.info("replication")["master_link_status"] == "up"
                and replica.dbsize() == source.dbsize()
            ),
            what="the replica has all",
        )
        replica.execute_command("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize("kind", available_kinds())
def test_promoted_replica_draws_other_tokens(library: Library, kind: str) -> None:
    with Server(kind, tcp=True) as first, Server(kind) as second:
        with on(first, library) as keyed:
            put_all(keyed)
            copy(first, second)
            # What comes now does not reach the replica, which was promoted before.
            stale = take_all(keyed, "stale")
        with on(second, library) as keyed:
            fresh = take_all(keyed, "fresh")
            assert fresh.keys() == stale.keys() == set(JIDS)
            assert refusals(keyed, stale, "stale") == ["LOCKLOST"] * 500
            assert refusals(keyed, fresh, "fresh") == []
            assert not set(fresh.values()) & set(stale.values())


@pytest.mark.parametrize("kind", available_kinds())
def test_server_that_lost_its_last_writes_draws_higher_tokens(
    library: Library, kind: str
) -> None:
    with Server(kind, "--appendonly", "no", "--dbfilename", "dump.rdb") as server:
        with on(server, library) as keyed:
            put_all(keyed)
            keyed.put("before", now=NOW, queue="other")
            keyed.take(1, queue="other", now=NOW)
            keyed.server.save()
            stale = take_all(keyed, "stale")
        server.kill()
        server.start()
        with on(server, library) as keyed:
            fresh = take_all(keyed, "fresh")
            assert min(map(int, fresh.values())) > max(map(int, stale.values()))
            assert refusals(keyed, stale, "stale") == ["LOCKLOST"] * 500
            assert refusals(keyed, fresh, "fresh") == []


def test_lost_last_token_is_not_drawn_again(keyed: Keyed) -> None:
    keyed.put("jid", NOW)
    first = keyed.token("jid", NOW)
    keyed.server.hset("ql:meta", "token", "0")
    keyed.call("release", "jid", first, now=NOW)
    second = keyed.token("jid", NOW)
    assert int(second) > int(first)
    assert keyed.refusal("complete", "jid", first, "queue", "{}", now=NOW).startswith(
        "LOCKLOST "
    )


@pytest.mark.parametrize("hours", [1, 24 * 365])
def test_tokens_rise_after_the_clock_was_set_back(keyed: Keyed, hours: int) -> None:
    last = int((time.time() + hours * 3600) * 1e6)
    keyed.put_many([{"jid": jid} for jid in "abc"], now=NOW)
    keyed.server.hset("ql:meta", "token", last)
    tokens = [int(job["token"]) for job in keyed.take(2, now=NOW)]
    tokens.append(int(keyed.take(1, now=NOW)[0]["token"]))
    assert last < tokens[0] < tokens[1] < tokens[2]


def test_calls_without_keys_draw_from_the_servers_clock(keyed: Keyed) -> None:
    """Their own time may be anything."""
    keyed.put("a", NOW)
    before = int(keyed.token("a", NOW))
    for jid in ("b", "c"):
        keyed.put(jid, NOW)
    keyed.core.old("pop", 5e10, "queue", "old", 2)
    tokens = [int(keyed.job(jid, NOW)["token"]) for jid in "bc"]
    assert before < min(tokens) < max(tokens) < (time.time() + 60) * 1e6
    keyed.put("d", NOW)
    assert int(keyed.token("d", NOW)) > max(tokens)
