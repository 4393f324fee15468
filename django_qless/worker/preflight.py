"""Is the server fit to keep jobs? Looked at once, before the first job."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from django_qless.core import exceptions
from django_qless.core.server import INFO, lacks, needed_by_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django_qless.core import Client
    from django_qless.core.server import ServerInfo

EVICTING = (
    "maxmemory-policy is {policy}: a full server would throw away jobs. "
    "Set it to noeviction."
)
FORGETTING = (
    "there is no append-only file: after a crash the server has lost jobs. "
    "Set appendonly to yes."
)
UNKNOWN = (
    "it is not known whether the server may lose jobs: its user lacks +info, "
    "see docs/permissions.md"
)


class CannotWork(Exception):
    """The worker cannot begin; `code` is the exit code, one of sysexits.h."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.code = code


# What keeps a worker from working, and how its process ends then. A supervisor may try
# again after EX_UNAVAILABLE; the others need a person.
CODES: tuple[tuple[type[exceptions.QlessError], int], ...] = (
    (exceptions.NotAuthenticated, os.EX_NOPERM),
    (exceptions.NotPermitted, os.EX_NOPERM),
    (exceptions.ServerTooOld, os.EX_CONFIG),
    (exceptions.ClusterRefused, os.EX_CONFIG),
    (exceptions.UnsupportedFormat, os.EX_CONFIG),
    (exceptions.ServerError, os.EX_UNAVAILABLE),
    (exceptions.QlessError, os.EX_SOFTWARE),
)


def inspect_server(client: Client) -> list[str]:
    """Return warnings about the server; raise CannotWork if it cannot be used."""
    try:
        client.meta()
        missing = client.missing_permissions() or []
        needed = needed_by_worker(missing)
        if needed:
            raise exceptions.NotPermitted(lacks(needed))
    except exceptions.QlessError as error:
        code = next(code for kind, code in CODES if isinstance(error, kind))
        raise CannotWork(str(error), code) from error
    if INFO & {*missing}:
        return [UNKNOWN]
    return list(warnings(server_info(client)))


def server_info(client: Client) -> ServerInfo:
    """Return what the server says of itself; nothing if it is forbidden."""
    with contextlib.suppress(exceptions.QlessError):
        return client.server_info()
    return {}


def warnings(info: Mapping[str, object]) -> Iterator[str]:
    """Say what may lose jobs on a server with this INFO."""
    if evicts(info):
        yield EVICTING.format(policy=info["maxmemory_policy"])
    if forgets(info):
        yield FORGETTING


def evicts(info: Mapping[str, object]) -> bool:
    """Return whether a full server throws data away."""
    return info.get("maxmemory_policy", "noeviction") != "noeviction"


def forgets(info: Mapping[str, object]) -> bool:
    """Return whether a server that crashes has lost what it was told lately."""
    return info.get("aof_enabled") == 0
