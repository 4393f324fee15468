"""`manage.py qless_status`."""

from __future__ import annotations

import json

import pytest
from django.core.management import CommandError

from tests.jobs_app.jobs import add
from tests.management.commands import run


def test_an_unknown_alias_is_named() -> None:
    with pytest.raises(CommandError, match="'nowhere'"):
        run("qless_status", "--alias", "nowhere")


def test_status_is_shown_again_and_again(
    qless, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt
        add.delay(1)

    monkeypatch.setattr("time.sleep", pause)
    lines = run("qless_status", "--watch", "0.5", "--json").splitlines()
    counts = [[q["waiting"] for q in json.loads(line)["queues"]] for line in lines]
    assert counts == [[], [1], [2]]
    assert pauses == [0.5] * 3
