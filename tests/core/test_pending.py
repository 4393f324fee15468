"""A call that has been sent, and whose reply is read later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from redis.credentials import CredentialProvider

from django_qless.core import (
    BadArgument,
    Client,
    ConnectionLost,
    NotPermitted,
    Settled,
    Settlement,
)
from django_qless.core.request import Command, Request
from tests.core.jobs import Make
from tests.permissions import PASSWORD, set_user
from tests.real_servers import poll

if TYPE_CHECKING:
    from tests.core.cutter import Cutter
    from tests.real_servers import Server


def asking(client: Any, *done: Settlement) -> Request[Settled]:
    """Return the call that a worker makes."""
    return Client.settle.build(client, "w", done, 1, ["q"], wait=30)


def put(client: Client, *jids: str) -> None:
    for jid in jids:
        client.put("", "q", jid, "k", "{}")


def test_the_server_works_meanwhile(client: Client, each_server: Server) -> None:
    put(client, "a", "b")
    [first] = client.run(asking(client)).jobs
    pending = client.start(asking(client, Settlement("a", first.token, "complete", ())))
    # Another connection makes the calls in between.
    poll(lambda: client.queue("q").counts().waiting == 0, what="b is handed out")
    assert client.queue("q").counts().running == 1
    [second] = pending.result().jobs
    assert (second.jid, pending.was_repeated) == ("b", False)
    assert [job.state for job in client.multiget(["a", "b"])] == ["complete", "running"]
    done = [Settlement("b", second.token, "complete", ())]
    assert client.settle("w", done, 0, ()).refused == []
    assert len(client.pool) == 2


def test_a_core_that_is_not_there_is_loaded(
    client: Client, each_server: Server
) -> None:
    put(client, "a")
    with each_server.client() as other:
        other.function_flush()
        other.script_flush()
    assert [job.jid for job in client.start(asking(client)).result().jobs] == ["a"]


@pytest.mark.parametrize("head", [0, 3, 40, 120])
def test_a_lost_reply_is_asked_for_again(
    valkey: Make, cutter: Cutter, head: int
) -> None:
    client = valkey(cutter.path)
    put(client, "a")
    cutter.cut("settle", head=head)
    pending = client.start(asking(client))
    [job] = pending.result().jobs
    assert pending.was_repeated
    assert cutter.cuts == 1
    assert (job.jid, job.token) == ("a", client.meta()["token"])
    assert client.queue("q").counts().running == 1


def test_a_connection_lost_before_is_opened_again(valkey: Make, server: Server) -> None:
    client = valkey()
    put(client, "a")
    with server.client() as other:
        other.client_kill_filter(_type="normal", skipme=True)
    assert [job.jid for job in client.start(asking(client)).result().jobs] == ["a"]
    assert len(client.pool) == 1


def test_a_server_that_stays_away_is_told_of_at_the_end(
    valkey: Make, cutter: Cutter
) -> None:
    client = valkey(cutter.path, patience=0.05, options={"max_connections": 1})
    put(client, "a")
    cutter.cut("settle", times=1_000_000)
    pending = client.start(asking(client))
    with pytest.raises(ConnectionLost):
        pending.result()
    cutter.cut("no longer")
    # Its only connection is free again, and as good as new.
    assert client.queue("q").counts().running == 1


def test_a_refusal_comes_with_the_result(valkey: Make, server: Server) -> None:
    put(valkey(), "a")
    with server.client() as other:
        other.execute_command("ACL", "SETUSER", "none", "on", ">x", "~*", "&*", "-@all")
    client = valkey(options={"username": "none", "password": "x"})
    with pytest.raises(NotPermitted):
        client.start(asking(client)).result()
    with pytest.raises(NotPermitted):
        client.start(asking(client)).result()
    assert len(client.pool) == 1


class Vault(CredentialProvider):
    """Does not answer at first."""

    asked = 0

    def get_credentials(self) -> tuple[str, str]:
        self.asked += 1
        if self.asked == 1:
            raise LookupError("the vault is closed")
        return "worker", PASSWORD


def test_what_a_credential_provider_raises_takes_no_connection_away(
    valkey: Make, server: Server
) -> None:
    put(valkey(), "a")
    set_user(server, "worker")
    options = {"credential_provider": Vault(), "max_connections": 1}
    client = valkey(options=options, patience=0.05)
    # The error is kept, and with it all that was at hand when it was raised.
    with pytest.raises(LookupError) as closed:
        client.start(asking(client))
    assert [job.jid for job in client.start(asking(client)).result().jobs] == ["a"]
    assert str(closed.value) == "the vault is closed"


def test_a_read_cannot_be_repeated(client: Client) -> None:
    with pytest.raises(BadArgument, match="only reads"):
        client.start(Command("queues", (), "read"))
    assert len(client.pool) == 0
