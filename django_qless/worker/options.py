"""The options of a worker."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, field

SHUTDOWN_TIMEOUT = 30.0
BLOCK_LIMIT = 30.0


def new_name() -> str:
    """Return a unique name for a worker: host, process id, and a random part.

    Hosts may be created again under their old name with the same process ids.
    """
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """A worker's behaviour. Times are in seconds, sizes in bytes; None: no limit."""

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

    max_jobs: int | None = None
    """Replace a child after about this many jobs."""
    max_memory: int | None = None
    """Replace a child whose RSS exceeds this many bytes."""
    max_age: float | None = None
    """Replace a child that is about this many seconds old."""
    max_idle: float | None = None
    """End when nothing has run for this many seconds."""

    shutdown_timeout: float = SHUTDOWN_TIMEOUT
    """How long running jobs may go on after a TERM."""
    block_limit: float = BLOCK_LIMIT
    """How long a job of the coroutines pool may block the event loop."""
    sandbox: str | None = None
    """The folder for the jobs' sandboxes; None: the system's temporary folder."""

    detached_limit: int | None = None
    """How many detached jobs of a queue may run at once on this host; None: as the
    queue's options say."""
    keep_detached: bool | None = None
    """Detached runs go on when the worker is stopped; None: unless they would end with
    it, in a container for example."""

    resume: bool = False
    """Resume the jobs that a worker of this name still holds."""
    reload: bool = False
    """Restart in place when the code changes."""
    health_file: str | None = None
    """Where to write, for other programs, that the worker is alive."""
