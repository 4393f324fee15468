"""Without Playwright the tests in a browser are left out, and nothing fails."""

from __future__ import annotations

import subprocess
import sys

import pytest

COLLECT = """
import sys
sys.modules["playwright"] = None
import pytest
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def test_the_browsers_tests_are_left_out_without_playwright() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, "tests/admin/browser"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
