"""How pytest spreads the tests over processes."""

from __future__ import annotations

import os


def options() -> list[str]:
    """Return pytest's options: two processes for each processor, as many tests wait."""
    return ["-n", str(2 * (os.cpu_count() or 1)), "--dist", "loadgroup"]
