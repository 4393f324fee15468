"""Between two tests: nothing that one has put is there in the next."""

from __future__ import annotations

from django_qless.servers import throwaway
from django_qless.testing.beginning import begun


def clean() -> None:
    """Forget what has been put, and empty the server that this process has started."""
    begun().forget()
    server = throwaway.running()
    if server is not None:
        server.flush()
