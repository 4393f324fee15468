"""What the core needs of the server's ACL is what is documented."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
import redis

from tests.core.caller import Core, Library
from tests.permissions import client_of, set_user

if TYPE_CHECKING:
    from tests.real_servers import Server

KEYS = ("ql:!", "ql:meta")

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
    arguments = ("w", '{"queue":"q","klass":"k","data":"{}"}', "jid", "j")
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
