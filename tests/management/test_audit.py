"""`manage.py qless_doctor --audit`: what it finds in a namespace that was damaged by hand."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command

from django_qless.core.audit import REMEDIES, audit
from tests.jobs_app.jobs import add, failing


def findings() -> list[str]:
    """Return the texts of the audit's problems."""
    output = io.StringIO()
    with contextlib.suppress(SystemExit):
        call_command("qless_doctor", "--audit", "--json", stdout=output)
    return [
        each["text"]
        for each in json.loads(output.getvalue())
        if each["about"] == "audit" and each["level"] == "PROBLEM"
    ]


def fill() -> list[str]:
    """Enqueue jobs of several states; return their ids."""
    first = add.delay(1, 2)
    second = add.using(after=[first], tags=["red"]).delay(3, 4)
    third = add.using(delay=1000, unique="key").delay(5, 6)
    fourth = failing.delay("broken", "why")
    return [str(handle.jid) for handle in (first, second, third, fourth)]


def test_a_sound_namespace_has_no_finding(
    qless: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill()
    # The tests' server has other problems: no append-only file.
    doctor = "django_qless.management.commands.qless_doctor.examine"
    monkeypatch.setattr(doctor, lambda alias, client, *, clean: [])
    output = io.StringIO()
    call_command("qless_doctor", "--audit", stdout=output)  # It exits with 0.
    assert "the records of the namespace agree with each other" in output.getvalue()
    assert findings() == []


#: Damages: what is done to the server, and a part of what the audit says of it.
DAMAGES: dict[str, tuple[Callable[[Any, str, list[str]], Any], str]] = {
    "a job in no place": (
        lambda s, p, jids: s.zrem(f"{p}q:default-work", jids[0]), "not in the work"),
    "a place without a job": (
        lambda s, p, jids: s.zadd(f"{p}q:default-work", {"ghost": 1}), "ghost is in work"),
    "a state that is none": (
        lambda s, p, jids: s.hset(f"{p}j:{jids[0]}", "state", "nosuch"), "in no state"),
    "a dependency without a link back": (
        lambda s, p, jids: s.srem(f"{p}j:{jids[0]}-dependents", jids[1]),
        "which does not know it"),
    "a job that waits for nothing": (
        lambda s, p, jids: s.delete(f"{p}j:{jids[1]}-dependencies"), "depends on nothing"),
    "a record that is a list": (
        lambda s, p, jids: (s.delete(f"{p}j:{jids[0]}"), s.rpush(f"{p}j:{jids[0]}", "x")),
        "cannot be judged"),
    "a tag that is not counted": (
        lambda s, p, jids: s.delete(f"{p}tags"), "jobs carry red, counted are 0"),
    "a history without a job": (
        lambda s, p, jids: s.rpush(f"{p}j:ghost-history", "[]"),
        "history of ghost, which does not exist"),
    "a foreign key": (lambda s, p, jids: s.set(f"{p}mine", "x"), "key mine is unknown"),
    "a queue that is hidden": (
        lambda s, p, jids: s.delete(f"{p}ready"), "is not ready"),
    "a failure group that is not listed": (
        lambda s, p, jids: s.rpush(f"{p}f:group", jids[0]), "group group"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_found_and_has_a_remedy(qless: Any, name: str) -> None:
    damage, words = DAMAGES[name]
    damage(qless.redis, qless.prefix, fill())
    with pytest.raises(SystemExit):
        call_command("qless_doctor", "--audit", stdout=io.StringIO())
    assert any(words in text for text in findings()), findings()
    assert all("Remedy: " in text for text in findings())


def test_only_what_is_still_so_a_moment_later_is_found(
    qless: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    jids = fill()
    place = f"{qless.prefix}q:default-work"
    score = qless.redis.zscore(place, jids[0])
    qless.redis.zrem(place, jids[0])

    def mend(seconds: float) -> None:
        qless.redis.zadd(place, {jids[0]: score})

    monkeypatch.setattr("django_qless.core.audit.time.sleep", mend)
    assert findings() == []


def test_many_jobs_are_read_in_parts(qless: Any) -> None:
    for number in range(450):
        add.delay(number, 1)
    qless.redis.zrem(f"{qless.prefix}q:default-work", add.delay(0, 0).jid)
    assert [each for each in findings() if "not in the work" in each]
    assert len(findings()) == 1


def test_each_kind_of_finding_has_a_remedy() -> None:
    assert audit.__doc__
    assert all(text and not text.endswith(".") for text in REMEDIES.values())
