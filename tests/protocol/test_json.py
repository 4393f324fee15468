"""Strict JSON in, the same bytes out."""

from __future__ import annotations

import json

import pytest
import redis

from tests.core.keyed import Keyed, settlement

GOOD = [
    "{}", "[]", '""', "0", "-0", "null", "true", "false", '"a"', "[[]]", '{"a":{}}',
    "12345678901234567890", "-9223372036854775808", "18446744073709551615",
    "0.1", "1e400", "1E+2", "-1.5e-10", "3.141592653589793238462643",
    '"\\u00e9\\ud83d\\ude00"', *(
        f'"{chr(edge)}"'  # where UTF-8 begins to be written otherwise
        for edge in (0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x3ffff, 0x40000, 0xfffff, 0x100000, 0x10ffff)
    ), '"😀 ü \u2028"', '"\\"\\\\\\/\\b\\f\\n\\r\\t"',
    ' \t\r\n{ "a" : [ 1 , 2 ] } \n', '{"a":1,"a":2}', '{"":""}', '"\x7f"',
    "[" * 100 + "]" * 100, '"' + "x" * 1000 + '"', '"\\u0000"',
]  # fmt: skip
BAD = [
    "", " ", "{", "}", "[", "]", '"', "'a'", "nan", "NaN", "Infinity", "-Infinity", "inf",
    "0x10", "01", "-01", "1.", ".5", "+1", "1e", "1e+", "- 1", "--1", "True", "None",
    "nul", "nulll", "{}{}", "[] []", "1 2", "[1,]", "[,1]", "[1 2]", '{"a":1,}',
    '{"a"}', '{"a":}', "{a:1}", "{1:1}", '{"a":1 "b":2}', '"\\x41"', '"\\u12"',
    '"\\ug000"', '"\n"', '"\t"', '"\x00"', '"\x01"', '"\x1f"', '"a', '"\\"', "/* */ 1", "1 // x",
    '"\\ud800"', '"\\udc00"', '"\\ud800\\u0041"', '"\\udc00\\ud800"', "[1]x",
    "\ufeff{}", "{]", "[}", '["a":1]', "truefalse", "[true false]", "\x0b1", "\xa01",
]  # fmt: skip
# Not UTF-8: a lone continuation, overlong, an encoded surrogate, too high, cut off.
BYTES = [b'"\x80"', b'"\xc0\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xc3"']


def sources(keyed: Keyed, data: str) -> list[tuple[object, ...]]:
    """Every place where a call takes JSON as the user's data."""
    token = keyed.job("jid")["token"]
    return [
        ("put", "w", "queue", "new", "klass", data, 0),
        ("put.many", "w", "new", "queue", "klass", data, 0, 0),
        ("requeue", "w", "queue", "jid", "klass", data, 0),
        ("complete", "jid", token, "queue", data),
        ("fail", "jid", token, "group", "message", data),
        ("heartbeat", "jid", token, data),
        ("complete", "jid", token, "queue", "{}", "result", data, "result_ttl", 9),
        ("recur", "queue", "r", "klass", data, "interval", 60, 0),
        ("recur.update", "cron", "data", data),
    ]


@pytest.fixture
def held(keyed: Keyed) -> Keyed:
    """A running job `jid`, and a template `cron`."""
    keyed.put("jid")
    keyed.token("jid")
    keyed.call("recur", "queue", "cron", "k", "{}", "interval", 60, 10**6, now=0)
    return keyed


@pytest.mark.parametrize("data", GOOD, ids=lambda text: ascii(text)[:30])
def test_good_data_comes_back_byte_for_byte(keyed: Keyed, data: str) -> None:
    """Through every transition: put, pop, heartbeat, retry, fail, unfail, move, end."""
    keyed.put("jid", data=data)
    keyed.core.put("old", data=data, queue="side")
    assert keyed.job("jid")["data"] == data
    assert keyed.core.job("old")["data"] == data
    [job] = keyed.take()
    assert job["data"] == data
    keyed.call("heartbeat", "jid", job["token"], data, now=1)
    keyed.settle([settlement("jid", job["token"], "retry", 0, "g", "m")], now=2)
    [job] = keyed.take(now=3)
    assert job["data"] == data
    keyed.call("fail", "jid", job["token"], "g", "m", now=4)
    keyed.call("unfail", "queue", "g", now=5)
    [job] = keyed.take(now=6)
    keyed.settle([settlement("jid", job["token"], "move", "next", 0)], now=7)
    [job] = keyed.take(queue="next", now=8)
    assert job["data"] == data
    keyed.settle([settlement("jid", job["token"], "complete", data, 60, data)], now=9)
    assert keyed.job("jid")["data"] == data
    assert keyed.call("result", "jid", now=9) == data
    assert keyed.json("multiget", "jid")[0]["data"] == data
    keyed.call("recur", "queue", "r", "k", data, "interval", 60, 0, now=10)
    assert keyed.take(now=10)[0]["data"] == data


@pytest.mark.parametrize("data", BAD, ids=lambda text: ascii(text)[:30])
def test_bad_json_is_refused_everywhere(held: Keyed, data: str) -> None:
    before = held.server.dbsize()
    for call in sources(held, data):
        if data == "" and "result" in call:
            continue  # no result
        assert held.refusal(*call, now=1).startswith("BADARG "), call  # type: ignore[arg-type]
    held.core.error("put", 1, "w", "queue", "new", "klass", data, 0)
    held.core.error("recur", 1, "queue", "r", "klass", data, "interval", 60, 0)
    assert held.server.dbsize() == before
    assert held.job("jid")["data"] == "{}"


@pytest.mark.parametrize("data", BYTES, ids=repr)
def test_bytes_that_are_no_text_are_refused(held: Keyed, data: bytes) -> None:
    for call in sources(held, data):  # type: ignore[arg-type]
        assert held.refusal(*call, now=1).startswith("BADARG "), call  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [2000, 100_000])
@pytest.mark.parametrize("shape", ["[]", "{}"])
def test_great_depth_is_refused_and_does_no_harm(
    held: Keyed, depth: int, shape: str
) -> None:
    data = (
        "[" * depth + "]" * depth
        if shape == "[]"
        else '{"a":' * depth + "1" + "}" * depth
    )
    for call in sources(held, data):
        assert held.refusal(*call, now=1).split()[0] in ("BADARG", "TOOBIG"), call[0]  # type: ignore[arg-type]
    assert held.job("jid")["data"] == "{}"


def test_the_largest_data(keyed: Keyed) -> None:
    data = '"' + "é" * (256 * 1024 - 1) + '"'
    assert len(data.encode()) == 512 * 1024
    keyed.put("jid", data=data)
    [job] = keyed.take()
    assert job["data"] == data
    keyed.settle([settlement("jid", job["token"], "retry", 0, "", "")], now=1)
    assert keyed.take(now=2)[0]["data"] == data


@pytest.mark.parametrize(
    "command", ["put", "put.many", "complete", "heartbeat", "fail"]
)
def test_more_data_is_too_big(held: Keyed, command: str) -> None:
    data = '"' + "x" * (512 * 1024 - 1) + '"'
    call = next(c for c in sources(held, data) if c[0] == command)
    assert held.refusal(*call, now=1).startswith("TOOBIG ")  # type: ignore[arg-type]
    assert held.job("jid")["data"] == "{}"


def test_results_and_messages_are_limited(held: Keyed) -> None:
    most = 64 * 1024
    token = held.job("jid")["token"]
    fits, too_big = '"' + "x" * (most - 2) + '"', '"' + "x" * (most - 1) + '"'
    for call in (
        ("complete", "jid", token, "queue", "{}", "result", too_big, "result_ttl", 9),
        ("fail", "jid", token, "group", too_big),
        ("retry", "jid", "queue", token, 0, "group", too_big),
        ("settle", "w", 1, "jid", token, "", "complete", 2, too_big, 9, 0, 0),
        ("settle", "w", 1, "jid", token, "", "fail", 2, "group", too_big, 0, 0),
        ("settle", "w", 1, "jid", token, "", "retry", 3, 0, "group", too_big, 0, 0),
        ("settle", "w", 1, "jid", token, "", "crash", 3, 0, "group", too_big, 0, 0),
    ):
        assert held.refusal(*call, now=1).startswith("TOOBIG "), call[:2]
    held.settle([settlement("jid", token, "retry", 0, "group", fits)], now=1)
    assert held.job("jid")["failure"]["message"] == fits
    token = held.token("jid", 2)
    held.settle([settlement("jid", token, "complete", fits, 9)], now=3)
    assert held.call("result", "jid", now=3) == fits


@pytest.mark.parametrize(
    "tags", ['{"a":1}', '"a"', "1", "null", '[["a"]]', "[true]", "[null]"]
)
def test_tags_are_a_list_of_texts(keyed: Keyed, tags: str) -> None:
    for call in (
        ("put", "w", "queue", "new", "klass", "{}", 0, "tags", tags),
        ("recur", "queue", "r", "klass", "{}", "interval", 60, 0, "tags", tags),
    ):
        assert keyed.refusal(*call, now=1).startswith("BADARG ")
    assert keyed.server.dbsize() == 0


def test_a_job_has_at_most_32_tags(keyed: Keyed) -> None:
    many = [f"t{n}" for n in range(33)]
    text = keyed.refusal("put", "w", "queue", "jid", "k", "{}", 0, "tags",
                         json.dumps(many), now=0)  # fmt: skip
    assert text.startswith("TOOBIG ")
    keyed.put("jid", tags=many[:32])
    assert keyed.refusal("tag", "add", "jid", "one-more", now=0).startswith("TOOBIG ")
    assert len(keyed.json("tag", "add", "jid", "t1")) == 32


@pytest.mark.parametrize("context", ["[]", "1", '"a"', "null", "{", ""])
def test_context_is_an_object(keyed: Keyed, context: str) -> None:
    with pytest.raises(redis.ResponseError, match=r"^BADARG "):
        keyed.put("jid", context=context)
    assert keyed.server.dbsize() == 0


def test_context_comes_back_byte_for_byte(keyed: Keyed) -> None:
    text = '{ "n": 12345678901234567, "l": [] }'
    keyed.put("jid", context=text)
    assert keyed.take()[0]["context"] == text
