"""What a worker is asked to be."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, field

SHUTDOWN_TIMEOUT = 30.0


def new_name() -> str:
    """Return a name that no other worker has: host, process, and a bit of chance.

    Hosts may be made anew under their old name with the same process ids.
    """
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker behaves. Times are in seconds."""

    queues: tuple[str, ...] = ("*",)
    """Names and globs, the most urgent first."""
    exclude: tuple[str, ...] = ()
    """Globs of queues to leave out."""
    alias: str = "default"
    name: str = field(default_factory=new_name)
    concurrency: int = 1
    """Jobs at once."""
    pool: str = "prefork"
    reserver: str = "ordered"
    burst: bool = False
    """End when the queues are empty and nothing runs."""
    shutdown_timeout: float = SHUTDOWN_TIMEOUT
    """How long running jobs may go on after a TERM."""
