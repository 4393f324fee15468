"""Sandboxes: empty and private for each run, removed whatever happens to their users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger


def wait_until_removed(path: Path) -> None:
    poll(lambda: not path.exists(), what=f"{path} is removed")


@pytest.mark.parametrize("pool", ["prefork", "fork"])
def test_a_job_that_kills_its_process_leaves_nothing(
    start_worker: Callable[..., WorkerProcess],
    put: Callable[..., str],
    ledger: Ledger,
    job_when: Callable[..., object],
    tmp_path: Path,
    pool: str,
) -> None:
    jid = put("fill_sandbox_and_die", ledger.path, retries=0)
    worker = start_worker(pool=pool, burst=True, sandbox=str(tmp_path / "s"))
    job_when(jid, "failed")
    worker.wait()
    paths = [Path(path) for path in ledger.starting_with("sandbox")]
    assert paths
    for path in paths:
        assert tmp_path in path.parents
        wait_until_removed(path)
    assert list((tmp_path / "s").iterdir()) == []
