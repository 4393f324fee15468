"""Spare jobs of a batch: put only if a job of the same batch that is put needs them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed
from tests.core.keyspace import snapshot


def spare(jid: str, *depends: str, **more: Any) -> dict[str, Any]:
    return {"jid": jid, "depends": list(depends), "spare": 1, **more}


def plain(jid: str, *depends: str, **more: Any) -> dict[str, Any]:
    return {"jid": jid, "depends": list(depends), **more}


def exists(keyed: Keyed, *jids: str) -> list[bool]:
    return [keyed.call("get", jid) is not None for jid in jids]


def test_one_that_is_needed_is_put(keyed: Keyed) -> None:
    assert keyed.put_many([spare("a"), spare("b", "a"), plain("c", "b")]) == []
    assert keyed.job("c")["dependencies"] == ["b"]
    assert [job["jid"] for job in keyed.take()] == ["a"]
    assert keyed.violations() == []


def test_one_that_is_not_is_left_out(keyed: Keyed) -> None:
    before = snapshot(keyed.server)
    assert sorted(keyed.put_many([spare("a"), spare("b", "a")])) == ["a", "b"]
    assert exists(keyed, "a", "b") == [False, False]
    assert snapshot(keyed.server).keys() - before.keys() <= {"ql:meta"}


def test_one_that_is_needed_by_what_another_stands_for(keyed: Keyed) -> None:
    keyed.put("old", unique="k")
    left = keyed.put_many(
        [spare("a"), spare("b", "a", unique="k"), plain("c", "b")],
    )
    assert (left, keyed.instead) == (["a"], {"b": "old"})
    assert keyed.job("c")["dependencies"] == ["old"]
    assert exists(keyed, "a", "b") == [False, False]
    assert keyed.violations() == []


def test_one_way_of_two_is_enough(keyed: Keyed) -> None:
    keyed.put("old", unique="k")
    left = keyed.put_many(
        [
            spare("a"),
            spare("b", "a", unique="k"),
            spare("c", "a", unique="l"),
            plain("d", "b", "c"),
        ],
    )
    assert left == []
    assert sorted(keyed.job("d")["dependencies"]) == ["c", "old"]
    assert keyed.job("c")["dependencies"] == ["a"]


def test_groups_share_what_they_need(keyed: Keyed) -> None:
    left = keyed.put_many(
        [
            spare("a1", unique="k"),
            plain("b1", "a1"),
            spare("a2", unique="k"),
            plain("b2", "a2"),
        ],
    )
    assert (left, keyed.instead) == ([], {"a2": "a1"})
    assert keyed.job("b2")["dependencies"] == ["a1"]


def test_one_that_others_stand_behind_is_put(keyed: Keyed) -> None:
    # The first group needs none, for its job is there; a later one does.
    keyed.put("b")
    left = keyed.put_many(
        [
            spare("a1", unique="k"),
            plain("b", "a1", absent=1),
            spare("a2", unique="k"),
            plain("c", "a2"),
        ],
    )
    assert (left, keyed.instead) == (["b"], {"a2": "a1"})
    assert exists(keyed, "a1", "c") == [True, True]
    # So it is for one that is put for its own sake.
    left = keyed.put_many(
        [spare("d1", unique="l"), plain("b", "d1", absent=1), plain("d2", unique="l")]
    )
    assert (left, keyed.instead) == (["b"], {"d2": "d1"})
    assert exists(keyed, "d1", "d2") == [True, False]
    assert keyed.violations() == []


def test_what_a_spare_one_takes_the_place_of_is_put_for_its_own_sake(
    keyed: Keyed,
) -> None:
    heir = spare("b", unique="k", conflict="replace", data="[2]")
    assert keyed.put_many([plain("a", unique="k"), heir]) == []
    assert keyed.instead == {"b": "a"}
    assert keyed.job("a")["data"] == "[2]"


def test_a_key_of_a_holder_that_is_gone_is_satisfied(keyed: Keyed) -> None:
    keyed.put("old", unique="k", unique_until=100)
    keyed.call("cancel", "old", now=0)
    left = keyed.put_many([spare("a", unique="k"), plain("b", "a")])
    assert (left, keyed.instead) == ([], {"a": "old"})
    assert keyed.job("b")["state"] == "waiting"


@pytest.mark.parametrize("command", ["put", "requeue"])
def test_only_in_a_batch(keyed: Keyed, command: str) -> None:
    keyed.put("a")
    error = keyed.refusal(
        command, "worker", "queue", "a", "klass", "{}", 0, "spare", 1, now=0
    )
    assert "spare can only be used in a batch" in str(error)
