"""Which of the two workers is tested: the variable says it, for all processes."""

from __future__ import annotations

import os

import pytest

IS_NEW = os.environ.get("QLESS_WORKER") == "new"


def old_fails(why: str) -> pytest.MarkDecorator:
    """Mark a test that the old worker need not pass."""
    return pytest.mark.xfail(not IS_NEW, reason=why, strict=False)
