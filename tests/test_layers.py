"""What works without Django does so where Django is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "module", ["core", "worker", "job_types.registry", "servers.embedded"]
)
def test_the_module_is_imported_where_django_is_not_installed(module):
    code = f"import sys; sys.modules['django'] = None; import django_qless.{module}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_built_core_is_what_its_modules_give():
    done = subprocess.run(
        [sys.executable, "lua/build.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
