"""Asynchronous twins of what an operator's object can do, by the same name after an `a`."""

from __future__ import annotations

from typing import Any


class Twins:
    """`await queues["mail"].apause()` is `queues["mail"].pause()` in asynchronous code."""

    def _twin(self) -> Any:
        """Return the object of the core that does the same with an AsyncClient."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        # Only for what is not there otherwise.
        if name[:1] == "a" and not name.startswith("a_"):
            method = getattr(type(self._twin()), name[1:], None)
            if method is not None:
                return getattr(self._twin(), name[1:])
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
