"""The tools that read deployment files, as far as they are installed."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec

#: The tool that reads a file, by the file's name; of the modules in `[docs]`.
MODULES = {
    "compose.yaml": "check_jsonschema",
    "kubernetes.yaml": "kubernetes_validate",
    "hpa.yaml": "kubernetes_validate",
    "Procfile": "honcho",
}
WORDS = {
    "check_jsonschema": ("--builtin-schema", "vendor.compose-spec"),
    "kubernetes_validate": ("--strict",),
    "honcho": ("check", "-f"),
}


def command(name: str) -> list[str] | None:
    """Return what checks the file whose path is to be appended, None without its tool."""
    module = MODULES[name]
    if find_spec(module) is None:
        return None
    return [sys.executable, "-m", module, *WORDS[module]]


def systemd_analyze() -> str | None:
    """Return the path of the program that checks units, None if it is not installed."""
    return shutil.which("systemd-analyze")


def missing() -> list[str]:
    """Return, in words, which deployment files are not checked on this machine."""
    found = [
        f"a check of {name} (to have it: pip install -e '.[docs]')"
        for name in MODULES
        if command(name) is None
    ]
    if systemd_analyze() is None:
        found.append("a check of systemd's units (no systemd-analyze)")
    return found
