"""How pytest spreads the tests over processes, and what these find in the environment."""

from __future__ import annotations

import os


def options() -> list[str]:
    """Return pytest's options: two processes for each processor.

    With what they start these keep it busy. Each more would have to collect all tests.
    """
    return ["-n", str(2 * (os.cpu_count() or 1)), "--dist", "loadgroup"]


def environment() -> dict[str, str]:
    """Return the environment of a whole run: what is compiled is kept.

    Tests start some hundred Pythons. Where none may keep what it has compiled, each
    compiles the package again, which is a quarter of its time.
    """
    given = dict(os.environ)
    given.pop("PYTHONDONTWRITEBYTECODE", None)
    return given
