"""Where the lock files of detached runs are."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import stat
from pathlib import Path
from typing import Any


def runs_directory(alias: str, namespace: str) -> Path:
    """Return the folder of one namespace's runs on this host.

    It is the same for all workers of a user on a host; `namespace` tells apart what
    several projects of that user call by the same alias.
    """
    base = state_directory() / "django_qless" / "detached"
    name = re.sub(r"[^\w-]", "_", alias, flags=re.ASCII)[:50]
    digest = hashlib.sha256(namespace.encode()).hexdigest()[:12]
    # Homes may be shared by several hosts.
    return base / socket.gethostname() / f"{name}-{digest}"


def state_directory() -> Path:
    """Return this user's folder for data that outlive a program."""
    for name in ("STATE_DIRECTORY", "XDG_STATE_HOME"):
        folder = os.environ.get(name, "").partition(":")[0]
        if os.path.isabs(folder):
            return Path(folder)
    home = Path(os.path.expanduser("~"))
    if home.is_absolute() and os.access(home, os.W_OK):
        return home / ".local" / "state"
    return Path("/var/tmp") / f"django_qless-{os.getuid()}"


def identity(client: Any) -> str:
    """Return what identifies the namespace of a client: server, database and prefix."""
    given = client.redis.connection_pool.connection_kwargs
    server = given.get("path") or f"{given.get('host')}:{given.get('port')}"
    return f"{server}/{given.get('db') or 0}/{client.prefix}"


def make_private(folder: Path) -> None:
    """Make a folder private to this user, or check that it is. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(
            f"{folder} cannot hold the locks of detached jobs: it is not a directory "
            "of this user. Remove it, or let $STATE_DIRECTORY name another place"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
