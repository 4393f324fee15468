"""What happens once in a process of tests, before anything is put or asked."""

from __future__ import annotations

from django_qless import conf
from django_qless.puts import outlet
from django_qless.servers import in_tests
from django_qless.testing import atomics
from django_qless.testing.sending import TestsOutlet

#: Through this everything goes that is put while tests run.
tests_outlet = TestsOutlet()


def begin() -> None:
    """Forget clients made before, and let everything that is put go through here."""
    conf.forget()
    atomics.watch()
    outlet.use(tests_outlet)


def begun() -> TestsOutlet:
    """Return the outlet of tests, in use from now on at the latest.

    Whoever asks for a helper of `django_qless.testing` runs tests, even where Django's
    test environment is not set up.
    """
    in_tests.begin(forced=True)
    return tests_outlet
