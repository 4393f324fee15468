"""The primary of a service, asked from Sentinels: by a majority, with short patience.

redis-py asks one sentinel after the other and takes the first answer. One that was cut off
from the others names a former primary, so these ask until a majority has answered, and take
the answer with the latest configuration. Sentinels that did not answer are asked last the
next time. Nothing stays connected between: a new connection is rare.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.sentinel import MasterNotFoundError

from .request import Steps, adrive, drive

#: Seconds for connecting to a sentinel, and for its answer, unless it is given otherwise.
SENTINEL_SECONDS = 1.0


def sentinels_like(manager: Any, copied: Callable[[Any], dict[str, Any]]) -> Any:
    """Return sentinels that are asked as this module does, at the same addresses.

    `copied` returns the arguments for our copy of the pool of a redis-py client. What has
    a way of its own to find the primary is returned as it is.
    """
    for stock, ours in (
        (redis.sentinel.Sentinel, Sentinels),
        (redis.asyncio.sentinel.Sentinel, AsyncSentinels),
    ):
        if type(manager) in (stock, ours):
            made = ours([], min_other_sentinels=manager.min_other_sentinels)
            forced = getattr(manager, "_force_master_ip", None)
            made._force_master_ip = forced
            made.sentinels = [_like(each, copied(each)) for each in manager.sentinels]
            return made
    return manager


def _like(client: Any, options: dict[str, Any]) -> Any:
    family: Any = redis if isinstance(client, redis.Redis) else redis.asyncio
    for name in ("socket_timeout", "socket_connect_timeout"):
        given = client.connection_pool.connection_kwargs.get(name)
        options[name] = given or SENTINEL_SECONDS
    return family.Redis(connection_pool=family.ConnectionPool(**options))


class Sentinels(redis.sentinel.Sentinel):
    """The sentinels, for blocking code."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the primary. Raises redis-py's ConnectionError."""
        return drive(_discover(self, service_name))


class AsyncSentinels(redis.asyncio.sentinel.Sentinel):
    """The sentinels, for one event loop."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the primary. Raises redis-py's ConnectionError."""
        return await adrive(_discover(self, service_name))


class _Answer(NamedTuple):
    """What a sentinel says about a service."""

    epoch: int
    address: tuple[str, int]
    flags: str
    #: What redis-py's `check_master_state` looks at.
    state: dict[str, Any]


def _discover(manager: Any, service: str) -> Steps[tuple[str, int]]:
    """Ask a majority of the sentinels for the primary."""
    asked = list(manager.sentinels)
    answers: list[_Answer] = []
    silent: list[Any] = []
    troubles: list[str] = []
    refused = 0
    for sentinel in asked:
        try:
            answers.append((yield from _ask(sentinel, service)))
        except (RedisError, OSError) as error:
            troubles.append(f"{_place(sentinel)}: {str(error) or repr(error)}")
            refused += isinstance(error, AuthenticationError)
            if not isinstance(error, ResponseError):
                silent.append(sentinel)
        finally:
            yield sentinel.connection_pool.disconnect(inuse_connections=False)
        if len(answers) > len(asked) // 2:
            break
    if silent:
        manager.sentinels = [each for each in asked if each not in silent] + silent
    if refused and not answers:
        raise AuthenticationError(f"Sentinel {'; '.join(troubles)}")
    if answers:
        latest = max(answers, key=attrgetter("epoch"))
        if manager.check_master_state(latest.state, service):
            host, port = latest.address
            return manager._force_master_ip or host, port
        troubles.append("{}:{} is {}".format(*latest.address, latest.flags))
    raise MasterNotFoundError(
        f"No sentinel names a primary of {service!r} that works ({'; '.join(troubles)})"
    )


def _ask(sentinel: Any, service: str) -> Steps[_Answer]:
    reply = yield sentinel.execute_command("SENTINEL", "MASTER", service)
    fields = dict(zip(reply[::2], reply[1::2], strict=True))
    # At the end of a failover this is the new primary, when the other still is the old one.
    host, port = yield sentinel.execute_command(
        "SENTINEL", "GET-MASTER-ADDR-BY-NAME", service
    )
    flags = fields["flags"].split(",")
    epoch = int(fields["config-epoch"])
    if (host, port) != (fields["ip"], fields["port"]):
        epoch, flags = epoch + 1, ["master"]
    state = {
        "is_master": "master" in flags,
        "is_sdown": "s_down" in flags,
        "is_odown": "o_down" in flags,
        "num-other-sentinels": int(fields["num-other-sentinels"]),
    }
    return _Answer(epoch, (host, int(port)), ",".join(flags), state)


def _place(sentinel: Any) -> str:
    options = sentinel.connection_pool.connection_kwargs
    return f"{options.get('host')}:{options.get('port')}"
