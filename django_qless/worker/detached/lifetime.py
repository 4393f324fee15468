"""Whether detached runs outlive their worker here: containers and service managers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

#: Files that container engines put at the root of a container.
CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")

#: Modes of systemd in which a stop ends only the main process of a unit.
GENTLE_MODES = ("process", "none")


def ends_with_worker(
    environment: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> str:
    """Return why runs end when the worker is stopped, as a phrase; "" if they go on.

    A container that runs a systemd does not end with one of its units.
    """
    mode = kill_mode(environment, root)
    if mode in GENTLE_MODES:
        return ""
    if mode:
        return f"the systemd unit of this worker has KillMode={mode}, not process"
    if is_container(environment, root):
        return "this is a container, which ends with its main process"
    return ""


def is_container(environment: Mapping[str, str], root: Path) -> bool:
    """Return whether this process runs in a container."""
    if environment.get("container") or environment.get("KUBERNETES_SERVICE_HOST"):
        return True
    return any((root / name.lstrip("/")).exists() for name in CONTAINER_FILES)


def kill_mode(environment: Mapping[str, str], root: Path) -> str:
    """Return the KillMode of the systemd unit of this process, "" if there is none."""
    if not environment.get("INVOCATION_ID"):
        return ""
    unit = unit_of(root / "proc/self/cgroup")
    command = ["systemctl", "show", "--property=KillMode", "--value", unit]
    if environment.get("MANAGERPID"):
        command.insert(1, "--user")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if unit and done.returncode == 0 else ""


def unit_of(cgroups: Path) -> str:
    """Return the systemd unit that this process belongs to, "" if it is unknown."""
    try:
        lines = cgroups.read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        for part in reversed(line.rpartition(":")[2].split("/")):
            if part.endswith((".service", ".scope")):
                return part
    return ""
