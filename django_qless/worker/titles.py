"""What the processes of a worker do, in the list of processes (ps, top).

    qless_worker w1 [mail *] 3 running
    qless_worker w1 running shop.jobs.send_welcome 9f4d…

Needs the library setproctitle (the extra `titles`); without it nothing happens.
"""

from __future__ import annotations

import contextlib
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _library() -> Callable[[str], None] | None:
    try:
        library = import_module("setproctitle")
    except ImportError:
        return None
    show: Callable[[str], None] = library.setproctitle
    return show


class Title:
    """The title of this process; call it with what it does now."""

    def __init__(self) -> None:
        self._show = _library()
        self._shown = ""
        self.worker = ""
        """The name of the worker that this process belongs to."""

    @property
    def wanted(self) -> bool:
        """Whether a title can be shown at all; if not, spare the trouble to make one."""
        return self._show is not None

    def __call__(self, text: str) -> None:
        """Show this text, if it is another than before. Raises nothing."""
        if self._show is None or text == self._shown:
            return
        self._shown = text
        # The name of a job may hold what no title can.
        with contextlib.suppress(ValueError):
            self._show(f"qless_worker {self.worker} {text}")


title = Title()
