"""The data of a Task's job, and what is added to them."""

from __future__ import annotations

import pytest

from django_qless.serialization import envelope
from django_qless.tasks import task_data


@pytest.mark.parametrize("letter", ["x", "é"])
@pytest.mark.parametrize(
    ("room", "is_added"),
    # Beyond what a job carries its data are compressed, and have room again.
    [(200_000, True), (100, True), (98, False), (0, False), (-2, True)],
)
def test_the_run_is_added_unless_the_data_are_just_full(
    letter: str, room: int, is_added: bool
) -> None:
    empty = task_data.encode("a.task", [""], {})
    missing = envelope.MOST_BYTES - room - len(empty)
    text = letter * (missing // len(letter.encode()))
    data = task_data.encode(
        "a.task", [text + "x" * (missing % len(letter.encode()))], {}
    )
    assert len(data.encode()) == envelope.MOST_BYTES - room
    ran = task_data.Ran(1.5, 0.25, has_value=True)
    found = task_data.with_run(data, ran)
    if not is_added:
        assert found is None
        return
    assert found is not None
    assert task_data.decode(found).ran == ran
    assert task_data.decode(found).args == task_data.decode(data).args
    assert task_data.decode(data).ran is None
