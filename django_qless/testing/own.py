"""The tests' own server, for tests that look at it or give its address to others."""

from __future__ import annotations

from django_qless.servers import throwaway
from django_qless.testing.beginning import begun


def qless_server() -> throwaway.Throwaway:
    """Return the private server of this process, running: `url`, `client()`, `flush()`.

    Raises NoServer if there is none for this machine.
    """
    begun()
    return throwaway.server()
