"""For the tests of projects that use django_qless, with unittest and pytest alike.

    with captured_jobs() as jobs: signup(...)      # nothing is put; assert on jobs
    with inline_jobs(): signup(...)                # each job runs at once, here
    run_jobs()                                     # runs what has been put, here
    assert_enqueued(send_welcome, user.pk)         # and assert_not_enqueued, …_count

`QlessTestMixin` has them as methods for unittest's classes; the pytest plugin, which is
installed with the package, has fixtures of the same names. While tests run, the aliases of
QLESS are on a private server of the test process (see `servers/in_tests.py`).

Names are imported when they are first used: the plugin costs nothing where no test needs
it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_qless.testing.assertions import assert_enqueued as assert_enqueued
    from django_qless.testing.assertions import (
        assert_enqueued_count as assert_enqueued_count,
    )
    from django_qless.testing.assertions import (
        assert_not_enqueued as assert_not_enqueued,
    )
    from django_qless.testing.captured import CapturedJob as CapturedJob
    from django_qless.testing.captured import CapturedJobs as CapturedJobs
    from django_qless.testing.cases import QlessTestMixin as QlessTestMixin
    from django_qless.testing.contexts import captured_jobs as captured_jobs
    from django_qless.testing.contexts import enqueued_jobs as enqueued_jobs
    from django_qless.testing.contexts import inline_jobs as inline_jobs
    from django_qless.testing.draining import arun_jobs as arun_jobs
    from django_qless.testing.draining import run_jobs as run_jobs
    from django_qless.testing.own import qless_server as qless_server
    from django_qless.testing.performing import EndlessJobs as EndlessJobs
    from django_qless.testing.performing import UnknownJob as UnknownJob
    from django_qless.testing.runs import Run as Run
    from django_qless.testing.runs import Runs as Runs

_HOMES = {
    "CapturedJob": "testing.captured",
    "CapturedJobs": "testing.captured",
    "EndlessJobs": "testing.performing",
    "QlessTestMixin": "testing.cases",
    "Run": "testing.runs",
    "Runs": "testing.runs",
    "UnknownJob": "testing.performing",
    "arun_jobs": "testing.draining",
    "assert_enqueued": "testing.assertions",
    "assert_enqueued_count": "testing.assertions",
    "assert_not_enqueued": "testing.assertions",
    "captured_jobs": "testing.contexts",
    "enqueued_jobs": "testing.contexts",
    "inline_jobs": "testing.contexts",
    "qless_server": "testing.own",
    "run_jobs": "testing.draining",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"django_qless.{home}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
