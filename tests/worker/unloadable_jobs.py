"""Jobs of a project that a new interpreter cannot load."""

from __future__ import annotations

import sys

if sys.argv[0] == "-c":
    raise RuntimeError("only as a whole")
