"""Tasks with limits. Only the tests of limits import it: they declare options."""

from __future__ import annotations

from tests.tasks.installed import task


@task(concurrency_key="customer")
def charge(customer: str, amount: int = 0) -> int:
    return amount
