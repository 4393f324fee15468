"""What a job returns reaches the server whatever its exact type is; once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker.stage import FLAVOURS

if TYPE_CHECKING:
    from tests.worker.stage import Stage


@pytest.mark.parametrize("a", FLAVOURS)
def test_subclasses_of_plain_types_are_what_they_extend(stage: Stage, a: str) -> None:
    jid = stage.put(f"{a}give_derived")
    failing = stage.put(f"{a}fail_derived", retries=3)
    stage.run(concurrency=2)
    assert stage.client.result(jid) == ["<b>bold</b>", 2, 1.5, {"bold": 2}]
    job = stage.job(failing)
    assert job.failure is not None
    assert (job.state, job.failure.group) == ("failed", "bold")
    assert "<b>bold</b>" in job.failure.message
    assert [each["level"] for each in job.history if each["what"] == "bold"] == [2]


def test_a_job_whose_copy_returns_as_well_counts_once(stage: Stage) -> None:
    """It forks, and both processes return from its function."""
    began = float(stage.client.meta()["now"])
    jids = [stage.put_run("fork_and_return_twice", n) for n in range(3)]
    after = stage.put("answer", 1)
    stage.run()
    for jid in jids:
        assert stage.what_happened(jid) == ["put", "popped", "done"]
        assert stage.client.result(jid) == "the original"
    assert stage.job(after).state == "complete"
    assert stage.client.stats("q", began).run.count == len(jids) + 1
