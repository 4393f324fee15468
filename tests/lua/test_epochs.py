"""No server draws the tokens of another one, whatever it has forgotten of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lua.caller import Core, Library
from tests.lua.keyed import Keyed, settlement
from tests.real_servers import Server, available_kinds, poll

JIDS = [f"j{number:03}" for number in range(500)]
PART = 250  # jobs of one call at most
TOKENS, EPOCHS = 2**28, 2**25
NOW = "*"

CELLS = [
    (kind, engine) for kind in available_kinds() for engine in ("function", "script")
]


@contextmanager
def on(server: Server, engine: str, library: Library) -> Iterator[Keyed]:
    with server.client(decode_responses=True) as client:
        library.load(client, engine)
        yield Keyed(Core(client, engine, library))


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


def epoch(token: int) -> int:
    return token // TOKENS


def put_all(keyed: Keyed) -> None:
    keyed.put_many([{"jid": jid} for jid in JIDS], now=NOW)


@pytest.mark.parametrize(("kind", "engine"), CELLS)
def test_who_held_jobs_before_a_promotion_is_refused(
    library: Library, kind: str, engine: str
) -> None:
    with Server(kind, tcp=True) as first, Server(kind) as second:
        with on(first, engine, library) as keyed:
            keyed.put("before", now=NOW)
            assert keyed.take(1, now=NOW)[0]["token"] == "1"
            put_all(keyed)
            copy(first, second)
            # What comes now does not reach the replica, which was promoted before.
            stale = take_all(keyed, "stale")
        with on(second, engine, library) as keyed:
            fresh = take_all(keyed, "fresh")
            assert fresh.keys() == stale.keys() == set(JIDS)
            assert refusals(keyed, stale, "stale") == ["LOCKLOST"] * 500
            assert refusals(keyed, fresh, "fresh") == []
            assert not set(fresh.values()) & set(stale.values())


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


@pytest.mark.parametrize(("kind", "engine"), CELLS)
def test_a_server_that_lost_its_last_writes_draws_others(
    library: Library, kind: str, engine: str
) -> None:
    with Server(kind, "--appendonly", "no", "--dbfilename", "dump.rdb") as server:
        with on(server, engine, library) as keyed:
            put_all(keyed)
            keyed.put("before", now=NOW, queue="other")
            keyed.take(1, queue="other", now=NOW)
            keyed.server.save()
            stale = take_all(keyed, "stale")
        server.kill()
        server.start()
        with on(server, engine, library) as keyed:
            fresh = take_all(keyed, "fresh")
            assert refusals(keyed, stale, "stale") == ["LOCKLOST"] * 500
            assert refusals(keyed, fresh, "fresh") == []


def test_jobs_popped_without_keys_as_well(
    each_server: Server, library: Library
) -> None:
    with on(each_server, "function", library) as keyed:
        keyed.put("a", now=NOW)
        assert keyed.token("a", now=NOW) == "1"
        have_come_from_elsewhere(keyed)
        keyed.put("b", now=NOW)
        keyed.core.old("pop", 2e9, "queue", "old", 1)
        token = int(keyed.server.hget("ql:j:b", "token") or 0)
        assert epoch(token) > 0
        assert token % TOKENS == 2
        keyed.put("c", now=NOW)
        assert keyed.token("c", now=NOW) == str(token + 1)


def have_come_from_elsewhere(keyed: Keyed) -> None:
    """Have the namespace's data come from a server that does not exist any longer."""
    [field] = [name for name in keyed.server.hkeys("ql:meta") if name[:7] == "server:"]
    keyed.server.hset("ql:meta", field, "0:0")


def test_one_server_goes_on_counting(keyed: Keyed) -> None:
    for number in range(1, 4):
        keyed.put(f"j{number}", now=NOW)
        assert keyed.take(1, now=NOW)[0]["token"] == str(number)
    assert keyed.server.hlen("ql:meta") == 4


def test_epochs_of_one_number_of_tokens_differ(keyed: Keyed) -> None:
    """Two replicas that were promoted draw different ones."""
    found = set()
    for jid in ("a", "b", "c", "d"):
        keyed.put(jid, now=NOW)
        token = keyed.token(jid, now=NOW)
        found.add(epoch(int(token)))
        keyed.server.hset("ql:meta", "token", "1")
        have_come_from_elsewhere(keyed)
    assert len(found) == 4
    assert max(found) < EPOCHS


def test_a_namespace_of_which_nobody_has_said_who_drew(keyed: Keyed) -> None:
    """An earlier build has drawn tokens there, and perhaps does beside this one."""
    keyed.put("a", now=NOW)
    keyed.server.hset("ql:meta", "token", "7")
    token = int(keyed.take(1, now=NOW)[0]["token"])
    assert epoch(token) > 0
    keyed.put("b", now=NOW)
    assert keyed.take(1, now=NOW)[0]["token"] == str(token + 1)


def test_who_may_not_ask_draws_on(each_server: Server, library: Library) -> None:
    with on(each_server, "script", library) as keyed:
        keyed.server.acl_setuser(
            "deaf", enabled=True, nopass=True, keys="*", channels="*",
            commands=["+@all", "-info"],
        )  # fmt: skip
        options = {"username": "deaf", "password": "any"}
        with each_server.client(decode_responses=True, **options) as client:
            deaf = Keyed(Core(client, "script", library))
            deaf.put("a", now=NOW)
            assert deaf.token("a", now=NOW) == "1"
            assert deaf.server.hlen("ql:meta") == 3
        keyed.server.acl_deluser("deaf")
