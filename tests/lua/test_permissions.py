"""What the core needs of the server's ACL: as documented, asked in advance, named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from tests.lua.caller import Core, Library
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
    "producer": "blpop",
    "worker": "blpop subscribe ping",
    "admin": "blpop",
    "operator": "blpop scan type lpos function|list function|delete",
}
#: Only calls to a node of a cluster run it: the document says so below its lines.
SHARDED = {"spublish"}
CALLING = "client|setinfo fcall function|load evalsha script|load"


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
    of_audits = {"scan", "type", "lpos"}
    besides = {*BESIDES[role].split(), *CALLING.split()}
    assert documented().keys() == BESIDES.keys()
    assert commands(role) - besides == in_source() - of_audits - SHARDED
    assert besides <= commands(role)


def test_what_can_be_asked_about_is_what_the_core_runs() -> None:
    source = (LUA / "views" / "permissions.lua").read_text()
    lists = re.search(r"local INSIDE = \{(.*?)\}", source, re.DOTALL)
    assert lists is not None
    asked = set(" ".join(re.findall(r"'([^']*)'", lists[1])).split())
    assert asked | {"scan", "type", "lpos", "publish", *SHARDED} == in_source()


Limit = Callable[..., Core]


@pytest.fixture
def limited(each_server: Server, engine: str, library: Library) -> Iterator[Limit]:
    """Takes rules away from a worker; returns the core as it may call it."""
    with each_server.client(decode_responses=True) as admin:
        library.load(admin, engine)

        def limit(*rules: str) -> Core:
            set_user(each_server, "worker", *rules)
            admin.acl_log_reset()
            user = client_of(each_server, "worker", decode_responses=True)
            return Core(admin, engine, library, users={"worker": user})

        yield limit
        set_user(each_server, "worker")


def missing(core: Core) -> Any:
    return json.loads(core.call("read", KEYS, "permissions", "*", ""))


def refusal(core: Core) -> str:
    arguments = ("w", "q", "j", "k", "{}", 0)
    with pytest.raises(redis.ResponseError) as caught:
        core.call("write", KEYS, "put", "*", "me:1", *arguments)
    return str(caught.value)


OPERATORS = ["+scan", "+type", "+lpos", "+function|list", "+function|delete"]


def test_a_worker_lacks_what_operators_have(limited: Limit) -> None:
    core = limited()
    assert missing(core) == OPERATORS
    assert core.server.acl_log() == []


def test_what_is_missing_is_told_in_advance(limited: Limit) -> None:
    core = limited("-lrem", "-zscore", "-info", "-blpop", "-subscribe", "-publish")
    assert missing(core) == [
        *("+info", "+lrem", "+zscore", *OPERATORS[:3], "+blpop", *OPERATORS[3:]),
        *("+publish", "+subscribe"),
    ]
    core = limited("resetkeys", "~ql:!", "~ql:meta", "resetchannels", "&ql:log")
    assert missing(core) == [*OPERATORS, "~ql:*"]
    core = limited("resetchannels")
    assert missing(core) == [*OPERATORS, "&ql:*"]
    assert core.server.acl_log() == []


def test_who_may_do_anything_lacks_nothing(core: Core) -> None:
    core.users = {}
    assert missing(core) == []


@pytest.mark.parametrize(
    ("taken", "named"),
    [
        (("-hset", "-hmget"), "+hmget +hset"),
        (("-zadd",), "+zadd"),
        (("-publish",), "+publish"),
        (("resetchannels",), "&ql:*"),
        (("resetkeys", "~ql:!", "~ql:meta"), "~ql:*"),
    ],
)
def test_a_refused_command_names_all_that_is_missing(
    limited: Limit, taken: tuple[str, ...], named: str
) -> None:
    text = refusal(limited(*taken))
    # Older servers do not name the user.
    assert text in (
        f"DENIED {who} lacks {named}" for who in ("User worker", "The user")
    )


def test_a_worker_may_not_audit(limited: Limit) -> None:
    core = limited()
    core.server, core.users = core.users["worker"], {}
    with pytest.raises(redis.ResponseError) as caught:
        core.call("read", KEYS, "audit", "*", "", "0")
    assert str(caught.value).endswith(" lacks +scan +type +lpos")


def test_a_call_that_may_not_tidy_replies_up_is_served_all_the_same(
    limited: Limit,
) -> None:
    core = limited("-hrandfield")
    put = ("w", "q", "j", "k", "{}", 0)
    assert core.call("write", KEYS, "put", "*", "me:1", *put) == "j"
