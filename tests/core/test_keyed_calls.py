"""Calls with KEYS: the namespace they name, their members beyond those of the protocol."""

from __future__ import annotations

import pytest
import redis

from tests.core.caller import KINDS, Core
from tests.core.keyed import Keyed

KEYS = ("ql:!", "ql:meta")


@pytest.mark.parametrize(
    "keys",
    [
        ("ql:!",),
        ("ql:", "ql:meta"),
        ("ql:!", "ql:other:meta"),
        ("ql:meta", "ql:!"),
        ("ql:!", "ql:meta", "ql:queues"),
        ("ql:!", "ql:"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_two_keys_of_a_namespace_are_accepted(
    core: Core, keys: tuple[str, ...], kind: str
) -> None:
    for command in ("queues", "put"):
        with pytest.raises(redis.ResponseError, match=r"^BADARG "):
            core.call(kind, keys, command, "*", "", "w", "q", "j", "k", "{}", 0)
    assert core.server.dbsize() == 0


@pytest.mark.parametrize("arguments", [("queues",), ("queues", "*")])
def test_now_and_request_are_wanted(core: Core, arguments: tuple[str, ...]) -> None:
    with pytest.raises(redis.ResponseError, match=r"^BADARG "):
        core.call("read", KEYS, *arguments)


def test_commands_of_ours_do_not_exist_without_keys(core: Core) -> None:
    for command in ("put.many", "settle", "beat", "release", "lag", "meta"):
        core.error(command, 0, "worker", 0, 0, 0)


def test_a_job_has_four_more_members(keyed: Keyed) -> None:
    keyed.put("jid", 5, context={"lang": "de"})
    old = keyed.core.job("jid")
    assert len(old) == 17
    job = keyed.job("jid")
    extra = {name: job.pop(name) for name in set(job) - set(old)}
    assert job == old
    assert extra == {
        "token": "",
        "context": {"lang": "de"},
        "progress": None,
        "crashes": 0,
    }
    keyed.put("plain")
    assert keyed.job("plain")["context"] is None


def test_pop_gives_tokens(keyed: Keyed) -> None:
    keyed.put("jid")
    [job] = keyed.json("pop", "queue", "worker", 1)
    assert job == keyed.job("jid")
    assert job["token"] != ""
    assert (job["state"], job["worker"]) == ("running", "worker")
