"""Names of options, and what is known of them."""

from __future__ import annotations

import pytest

from django_qless.core.options import known


@pytest.mark.parametrize(
    ("name", "default", "meaning"),
    [
        ("heartbeat", 60, "seconds that a lock lasts"),
        ("mail-heartbeat", "", "seconds that a lock of one of its jobs"),
        ("a-b-max-concurrency", 0, "how many of its jobs may run"),
        ("shop.jobs.add-rate-of-type", "0", "how often its jobs may start"),
    ],
)
def test_an_option_is_known_alone_or_behind_a_queue_or_a_type(
    name: str, default: int | str, meaning: str
) -> None:
    option = known(name)
    assert option is not None
    assert option[:2] == (name, default)
    assert option.meaning.startswith(meaning)


@pytest.mark.parametrize("name", ["", "no-such", "-heartbeat", "mailheartbeat"])
def test_of_another_name_nothing_is_known(name: str) -> None:
    assert known(name) is None
