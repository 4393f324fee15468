"""A module that misses another one."""

from __future__ import annotations

import not_installed  # type: ignore[import-not-found]  # noqa: F401
