"""What the core needs of the server's ACL is what is documented."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from tests.core.caller import Core, Library
from tests.permissions import client_of, documented, set_user

if TYPE_CHECKING:
    from tests.real_servers import Server

LUA = Path(__file__).parents[2] / "lua"

KEYS = ("ql:!", "ql:meta")

#: Which commands the source names; some are handed to what runs them in pieces.
RUN = re.compile(
    r"\b(?:call|redis\.pcall|in_pieces)\(\s*'([A-Z]+)'|\bfields = \{\s*'([A-Z]+)'"
)

#: What each role may besides, and why.
BESIDES = {
    "producer": "blpop info",
    "worker": "blpop info subscribe ping",
    "admin": "blpop info",
    "operator": "blpop info function|list function|delete",
}
#: Only calls to a node of a cluster run it: the document says so below its lines.
SHARDED = {"spublish"}
CALLING = "client|setinfo fcall function|load"


def commands(role: str) -> set[str]:
    return {rule[1:] for rule in documented()[role] if rule.startswith("+")}


def in_source() -> set[str]:
    return {
        name.lower()
        for module in LUA.rglob("*.lua")
        for names in RUN.findall(module.read_text())
        for name in names
        if name
    }


@pytest.mark.parametrize("role", BESIDES)
def test_what_is_documented_is_what_the_core_runs_and_no_more(role: str) -> None:
    besides = {*BESIDES[role].split(), *CALLING.split()}
    assert documented().keys() == BESIDES.keys()
    assert commands(role) - besides == in_source() - SHARDED
    assert besides <= commands(role)


Limit = Callable[..., Core]


@pytest.fixture
def limited(each_server: Server, library: Library) -> Iterator[Limit]:
    """Takes rules away from a worker; returns the core as it may call it."""
    with each_server.client(decode_responses=True) as admin:
        library.load(admin)

        def limit(*rules: str) -> Core:
            set_user(each_server, "worker", "+evalsha", *rules)
            admin.acl_log_reset()
            user = client_of(each_server, "worker", decode_responses=True)
            return Core(admin, library, users={"worker": user})

        yield limit
        set_user(each_server, "worker")


def refusal(core: Core) -> str:
    arguments = ("w", "q", "j", "k", "{}", 0)
    with pytest.raises(redis.ResponseError) as caught:
        core.call("write", KEYS, "put", "*", "me:1", *arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    "taken",
    [("-zadd",), ("-publish",), ("resetchannels",), ("resetkeys", "~ql:!", "~ql:meta")],
)
def test_a_refusal_has_a_code_and_the_servers_words(
    limited: Limit, taken: tuple[str, ...]
) -> None:
    text = refusal(limited(*taken))
    assert text.startswith("DENIED ")
    assert "ACL failure" in text or "The user executing the script" in text


def test_a_call_that_may_not_tidy_replies_up_is_served_all_the_same(
    limited: Limit,
) -> None:
    core = limited("-hrandfield")
    put = ("w", "q", "j", "k", "{}", 0)
    assert core.call("write", KEYS, "put", "*", "me:1", *put) == "j"
