"""Sharded channels as if they were plain ones, for subscribers in a cluster.

The messages of a sharded channel stay on the nodes of its slot, which is that of the
namespace's keys. When the slot moves to another node, the former one ends the subscription.
That is an error here, like a lost connection: the subscriber then looks for the new node.
"""

from __future__ import annotations

from typing import Any

import redis.asyncio.client
import redis.client
from redis.exceptions import ConnectionError as RedisConnectionError

_SENT = {"SUBSCRIBE": "SSUBSCRIBE", "UNSUBSCRIBE": "SUNSUBSCRIBE"}
_RECEIVED = {"ssubscribe": "subscribe", "smessage": "message"}


def _sharded(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a command for sharded channels."""
    return (_SENT.get(arguments[0], arguments[0]), *arguments[1:])


def _plain(response: Any) -> Any:
    """Return what is received as it would be from a plain channel."""
    if isinstance(response, list) and response:
        kind, *rest = response
        if kind == "sunsubscribe":
            raise RedisConnectionError("The slot has moved to another node")
        return [_RECEIVED.get(kind, kind), *rest]
    return response


class ShardedPubSub(redis.client.PubSub):
    """Subscribes to sharded channels, for blocking code."""

    def execute_command(self, *arguments: Any) -> Any:
        """Send a command about channels."""
        return super().execute_command(*_sharded(arguments))  # type: ignore[no-untyped-call]

    def handle_message(self, response: Any, *options: Any, **named: Any) -> Any:
        """Return a message as redis-py does."""
        return super().handle_message(  # type: ignore[no-untyped-call]
            _plain(response), *options, **named
        )


class AsyncShardedPubSub(redis.asyncio.client.PubSub):
    """Subscribes to sharded channels, for asyncio."""

    async def execute_command(self, *arguments: Any) -> Any:
        """Send a command about channels."""
        return await super().execute_command(*_sharded(arguments))

    async def handle_message(self, response: Any, *options: Any, **named: Any) -> Any:
        """Return a message as redis-py does."""
        return await super().handle_message(  # type: ignore[no-untyped-call]
            _plain(response), *options, **named
        )
