"""Helpers for the tests of projects that use django_qless: unittest and pytest.

    with captured_jobs() as jobs: signup(...)      # nothing is enqueued; assert on jobs
    with inline_jobs(): signup(...)                # each job runs at once, here
    run_jobs()                                     # runs what has been enqueued, here
    assert_enqueued(send_welcome, user.pk)         # and assert_not_enqueued, …_count

`QlessTestMixin` has them as methods for unittest's classes; the pytest plugin, which is
installed with the package, has fixtures of the same names. While tests run, the aliases of
QLESS are on a private server of the test process (see `conf/in_tests.py`).

Names are imported when they are first used: the plugin costs nothing where no test needs
it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_qless.testing.assertions import QlessTestMixin as QlessTestMixin
    from django_qless.testing.assertions import assert_enqueued as assert_enqueued
    from django_qless.testing.assertions import (
        assert_enqueued_count as assert_enqueued_count,
    )
    from django_qless.testing.assertions import (
        assert_not_enqueued as assert_not_enqueued,
    )
    from django_qless.testing.captured import CapturedJob as CapturedJob
    from django_qless.testing.captured import CapturedJobs as CapturedJobs
    from django_qless.testing.captured import Run as Run
    from django_qless.testing.captured import Runs as Runs
    from django_qless.testing.dispatcher import qless_server as qless_server
    from django_qless.testing.execution import EndlessJobs as EndlessJobs
    from django_qless.testing.execution import UnknownJob as UnknownJob
    from django_qless.testing.modes import captured_jobs as captured_jobs
    from django_qless.testing.modes import enqueued_jobs as enqueued_jobs
    from django_qless.testing.modes import inline_jobs as inline_jobs
    from django_qless.testing.runner import arun_jobs as arun_jobs
    from django_qless.testing.runner import run_jobs as run_jobs

_MODULES = {
    "assertions": "QlessTestMixin assert_enqueued assert_enqueued_count "
    "assert_not_enqueued",
    "captured": "CapturedJob CapturedJobs Run Runs",
    "dispatcher": "qless_server",
    "execution": "EndlessJobs UnknownJob",
    "modes": "captured_jobs enqueued_jobs inline_jobs",
    "runner": "arun_jobs run_jobs",
}
_MODULE_OF = {name: at for at, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
