"""The calling convention without KEYS: arguments, clock, reply shapes, error form."""

from __future__ import annotations

import pytest
import redis

from tests.core.caller import Core


def test_a_call_without_arguments_is_an_error(core: Core) -> None:
    with pytest.raises(redis.ResponseError):
        core.call("old", ())


@pytest.mark.parametrize("command", ["", "nosuch", "PUT", "Get", "queue.", "main"])
def test_an_unknown_command_is_an_error(core: Core, command: str) -> None:
    core.error(command, 0)


def test_a_missing_clock_is_an_error(core: Core) -> None:
    with pytest.raises(redis.ResponseError):
        core.call("old", (), "queues")


@pytest.mark.parametrize("now", ["", "noon", "*", "nan", "inf", "-inf", "0x10", "1 2"])
def test_a_clock_that_is_no_number_is_an_error(core: Core, now: str) -> None:
    core.error("put", now, "worker", "queue", "jid", "klass", "{}", 0)
    assert core.server.dbsize() == 0


@pytest.mark.parametrize(
    "keys", [("ql:j:a",), ("ql:meta",), ("ql:a", "ql:b"), ("ql:",)]
)
def test_keys_that_do_not_name_a_namespace_are_refused(
    core: Core, keys: tuple[str, ...]
) -> None:
    with pytest.raises(redis.ResponseError):
        core.call("old", keys, "put", 0, "worker", "queue", "jid", "klass", "{}", 0)
    assert core.server.dbsize() == 0


def test_a_writing_command_is_refused_by_the_read_function(core: Core) -> None:
    keys = ("ql:!", "ql:meta")
    shape = '{"queue":"queue","klass":"klass","data":"{}"}'
    arguments = ("*", "", "worker", shape, "jid", "jid")
    with pytest.raises(redis.ResponseError, match="in the write or the drain class"):
        core.call("read", keys, "put", *arguments)
    assert core.server.dbsize() == 0
    core.call("write", keys, "put", *arguments)


def test_the_clock_may_be_a_fraction_and_may_jump_both_ways(core: Core) -> None:
    core.put("a", 1400000000.25)
    core.put("b", 12)
    assert core.popped(1) == ["b", "a"]
    assert core.job("a")["expires"] == 61


def test_python_style_clocks_are_understood(core: Core) -> None:
    """`repr(time.time())` of a small or large clock may have an exponent."""
    core.put("a", "1.5e3")
    assert float(core.server.hget("ql:j:a", "time")) == 1500


def test_numbers_in_replies_lose_their_fraction(core: Core) -> None:
    core.put("jid", 0)
    core.pop(0)
    assert core.old("heartbeat", 10.9, "jid", "worker") == 70


def test_numbers_in_json_have_at_most_14_digits(core: Core) -> None:
    core.put("jid", 1234567890.123456)
    core.pop(1234567890.123456)
    assert '"expires":1234567950.1235' in core.old("get", 0, "jid")


def test_numbers_in_the_store_have_17_digits(core: Core) -> None:
    core.put("jid", 1234567890.123456)
    core.pop(1234567890.123456)
    assert core.server.zscore("ql:q:queue-locks", "jid") == 1234567950.123456
    assert float(core.server.hget("ql:j:jid", "expires")) == 1234567950.123456


def test_commands_without_a_reply_answer_null(core: Core) -> None:
    core.put("jid")
    core.pop()
    for command, *args in (
        ("log", "jid", "message"),
        ("timeout", "jid"),
        ("pause", "queue"),
        ("unpause", "queue"),
        ("queue.forget", "queue"),
        ("worker.deregister", "worker"),
        ("config.set", "heartbeat", 10),
        ("config.unset", "heartbeat"),
        ("get", "nosuch"),
        ("recur.get", "nosuch"),
    ):
        assert core.old(command, 0, *args) is None, command


def test_empty_lists_in_json_are_encoded_as_empty_objects(core: Core) -> None:
    for command, *args in (
        ("pop", "queue", "worker", 10),
        ("peek", "queue", 10),
        ("multiget", "nosuch"),
        ("failed",),
    ):
        assert core.old(command, 0, *args) == "{}", command
    assert core.json("tag", 0, "get", "nosuch") == {"total": 0, "jobs": {}}
    assert core.json("failed", 0, "nosuch") == {"total": 0, "jobs": {}}
    assert core.json("track", 0) == {"jobs": {}, "expired": {}}
    assert core.old("tag", 0, "top") == "{}"
    core.old("worker.deregister", 0, "worker")
    assert core.old("workers", 0) == "{}"
    assert core.old("queues", 0) == "{}"


def test_plain_lists_stay_plain(core: Core) -> None:
    assert core.old("jobs", 0, "complete") == []
    for state in ("running", "stalled", "scheduled", "depends", "recurring"):
        assert core.old("jobs", 0, state, "queue") == []
    assert core.old("cancel", 0, "nosuch") == ["nosuch"]


def test_arguments_are_text_even_if_they_look_like_numbers(core: Core) -> None:
    core.put("007", 0, queue="1e3", klass="0x10", tags=["1.0"])
    job = core.job("007")
    assert (job["jid"], job["queue"], job["klass"]) == ("007", "1e3", "0x10")
    assert core.pop(0, queue="1e3", worker="00")[0]["worker"] == "00"
    assert core.json("tag", 0, "get", "1.0") == {"total": 1, "jobs": ["007"]}
