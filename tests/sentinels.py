"""A primary, its replicas, and the sentinels that watch them: real ones, on free ports."""

from __future__ import annotations

import contextlib
import os
import signal
from contextlib import ExitStack
from typing import Any

import redis
import redis.sentinel

from tests.real_servers import Server, poll

SENTINEL = """\
sentinel monitor main 127.0.0.1 {port} {quorum}
sentinel down-after-milliseconds main 1500
sentinel failover-timeout main 5000
"""

# A replica that comes is served at once, without a look out for more of them.
AT_ONCE = ("--repl-diskless-sync-delay", "0")


def role(server: Server) -> str:
    """Return what a server is by now: master or slave, or "" if it hangs up."""
    with contextlib.suppress(redis.RedisError), server.client() as probe:
        return str(probe.info("replication")["role"])
    return ""


class Watched:
    """A primary, its replicas, and the sentinels that watch them under the name main."""

    def __init__(
        self,
        *,
        replicas: int = 1,
        sentinels: int = 1,
        kind: str = "valkey",
        arguments: tuple[str, ...] = (),
    ) -> None:
        self._stack = ExitStack()
        self._numbers = replicas, sentinels
        self._kind = kind
        self._arguments = (*arguments, *AT_ONCE)

    def __enter__(self) -> Watched:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        replicas, sentinels = self._numbers
        #: The server that is the primary at first.
        self.primary = self._stack.enter_context(
            Server(self._kind, *self._arguments, tcp=True)
        )
        port = str(self.primary.port)
        follow = ("--replicaof", "127.0.0.1", port)
        self.replicas = [
            self._stack.enter_context(
                Server(self._kind, *self._arguments, *follow, tcp=True)
            )
            for _ in range(replicas)
        ]
        for replica in self.replicas:
            self.wait_for_link(replica)
        config = SENTINEL.format(port=port, quorum=sentinels // 2 + 1)
        self.sentinels = [
            self._stack.enter_context(
                Server(self._kind, "--sentinel", tcp=True, config=config)
            )
            for _ in range(sentinels)
        ]
        for sentinel in self.sentinels:
            with sentinel.client(decode_responses=True) as probe:
                poll(
                    lambda probe=probe: (  # type: ignore[misc]
                        len(probe.sentinel_slaves("main")) == replicas
                        and len(probe.sentinel_sentinels("main")) == sentinels - 1
                    ),
                    what="the sentinels know each other and the replicas",
                )

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses of the sentinels."""
        return [("127.0.0.1", sentinel.port) for sentinel in self.sentinels]

    @property
    def settings(self) -> dict[str, Any]:
        """What an alias of QLESS says to connect to them."""
        return {"SENTINELS": self.addresses, "SERVICE_NAME": "main"}

    @property
    def servers(self) -> list[Server]:
        """The primary and the replicas of the beginning."""
        return [self.primary, *self.replicas]

    def master(self) -> redis.Redis:
        """Return redis-py's client of whichever server is the primary."""
        manager = redis.sentinel.Sentinel(self.addresses)
        return manager.master_for("main", socket_timeout=2)

    def current(self) -> Server | None:
        """Return the server that the first sentinel names."""
        with self.sentinels[0].client(decode_responses=True) as probe:
            _, port = probe.execute_command(
                "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"
            )
        return next((each for each in self.servers if each.port == int(port)), None)

    def wait_for_link(self, replica: Server) -> None:
        """Return when the replica has all that its primary has had."""
        with replica.client() as copy:
            poll(
                lambda: copy.info("replication")["master_link_status"] == "up",
                what="the replica is up to date",
            )

    def cut_replicas(self) -> None:
        """Make the primary's replicas lose it, and what it is given from now on."""
        with self.primary.client() as probe:
            probe.execute_command("ACL", "SETUSER", "default", "-psync", "-sync")
            probe.execute_command("CLIENT", "KILL", "TYPE", "replica")
            poll(
                lambda: probe.info("replication")["connected_slaves"] == 0,
                what="the primary has no replica",
            )

    def join_replicas(self) -> None:
        """Let them in again."""
        with self.primary.client() as probe:
            probe.execute_command("ACL", "SETUSER", "default", "+@all")
        for replica in self.replicas:
            self.wait_for_link(replica)

    def part(self) -> Server:
        """Cut the primary off from replicas and sentinels; return the promoted replica.

        Its clients are on its side of the split: for them it goes on.
        """
        self.cut_replicas()
        with self.primary.client() as probe:
            # An answer that is an error is none to a sentinel.
            probe.execute_command("ACL", "SETUSER", "default", "-ping", "-info")
        return self.promoted()

    def heal(self) -> None:
        """Join what was parted: the former primary becomes a replica."""
        with self.primary.client() as probe:
            probe.execute_command("ACL", "SETUSER", "default", "+@all")
        poll(
            lambda: role(self.primary) == "slave",
            what="the sentinels have made the former primary a replica",
        )

    def fail_over(self, with_signal: str = "KILL") -> Server:
        """Stop the primary; return the replica that has been promoted."""
        self.fail(with_signal)
        return self.promoted()

    def fail(self, with_signal: str = "KILL") -> None:
        """Stop the primary."""
        if with_signal == "STOP":
            os.kill(self.primary.pid, signal.SIGSTOP)
        else:
            self.primary.stop(with_signal)

    def promoted(self) -> Server:
        """Return the replica that has been promoted."""
        return poll(
            lambda: next(
                (each for each in self.replicas if role(each) == "master"), None
            ),
            what="a replica is promoted",
        )
