"""Every argument of every command, replaced by nonsense: refused in plain words, and
nothing written; or understood, and the namespace is sound."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tests import drawing
from tests.core.caller import Core
from tests.core.every_call import KEYED, OLD, Call, name, scene, with_proof
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import Snapshot, difference, digest, dumped, restore, snapshot

NONSENSE: list[Any] = [
    "", " ", "nan", "-nan", "inf", "-inf", "1e999", "0x10", "1.5", "-1", "-0", "1e3",
    "9" * 400, "9007199254740993", "1e15", "1e300", "-1e300", "\0", "a\0b", "{", "[}", "[NaN]", '"\\ud800"', "null",
    "true", '{"a":1}', '["nosuch"]', '["run","run"]', "[" * 5000, b"\xff\xfe", b"\xed\xa0\x80",
    "é" * 200, "*", "nosuch", "%s%n", "x" * (1024 * 1024 + 1),
]  # fmt: skip

CODES = set(
    "BADARG NOCOMMAND NOSCHEDULE NOJOB NOWORKER LOCKLOST STATE DEPENDENTS CYCLE TOOBIG STALE".split()
)


def all_variants(call: Call) -> Iterator[Call]:
    """Replace each argument, leave each out, add one, end early."""
    arguments = call[1:]
    for position in range(len(arguments)):
        for nonsense in NONSENSE:
            changed = list(arguments)
            changed[position] = nonsense
            yield (call[0], *changed)
        yield (call[0], *arguments[:position], *arguments[position + 1 :])
        yield (call[0], *arguments[:position])
    yield (*call, "extra")
    yield (*call, "extra", "more")


def variants(call: Call) -> list[Call]:
    """Return a part of the wrong calls by day, and all of them by night."""
    return drawing.part(list(all_variants(call)), 4)


def check(
    keyed: Keyed, calls: list[Call], send: Callable[[Call], Any],
    judge: Callable[[str], bool],
) -> None:  # fmt: skip
    """Send each call to the same scene; judge the texts of errors."""
    token = scene(keyed)
    before, dumps = digest(keyed.server), dumped(keyed.server)
    for call in calls:
        call = with_proof(call, token)
        shown = [str(part)[:60] for part in call]
        try:
            send(call)
        except redis.ResponseError as error:
            text = str(error)
            assert judge(text), (shown, text[:300])
            assert not re.search(r"attempt to|bad argument", text), (shown, text[:300])
            assert len(text) < 2000, "the whole argument is in the message"
            assert digest(keyed.server) == before, (shown, text[:300])
            continue
        if digest(keyed.server) != before:
            assert keyed.violations() == [], shown
            restore(keyed.server, dumps)
            assert digest(keyed.server) == before


@pytest.mark.parametrize("good", KEYED, ids=name)
def test_nonsense_is_refused_as_a_whole_or_leaves_a_sound_namespace(
    keyed: Keyed, good: Call
) -> None:
    def in_plain_words(text: str) -> bool:
        code, _, words = text.partition(" ")
        return code in CODES and bool(words) and not re.search(r"user_\w+:\d+", words)

    command, *args = with_proof(good, scene(keyed))
    keyed.call(command, *args, now=10)
    keyed.server.flushall()
    calls = variants(good)
    check(keyed, calls, lambda c: keyed.call(c[0], *c[1:], now=10), in_plain_words)


@pytest.mark.parametrize("good", [call for call in KEYED if call[0] in OLD], ids=name)
def test_nonsense_without_keys_changes_nothing_or_leaves_a_sound_namespace(
    core: Core, good: Call
) -> None:
    def with_a_position(text: str) -> bool:
        return bool(re.search(r"user_\w+:\d+: \w", text))

    calls = variants(with_proof(good, "w"))
    check(Keyed(core), calls, lambda c: core.old(c[0], 10, *c[1:]), with_a_position)


@pytest.mark.parametrize("now", ["", "nan", "inf", "0x1", "x" * 10_000, "\0", "1\0"])
def test_nonsense_for_the_clock(keyed: Keyed, now: str) -> None:
    scene(keyed)
    before = digest(keyed.server)
    for good in KEYED:
        assert keyed.refusal(*good, now=now).startswith("BADARG "), good
    assert digest(keyed.server) == before


def test_commands_are_no_members_of_tables(keyed: Keyed) -> None:
    """Names that Lua tables or their metatables know must not be called."""
    for command in ("", "PUT", "__index", "__newindex", "1", "nil", "\0", "a" * 10**6):
        assert keyed.refusal(command).startswith("NOCOMMAND ")
        keyed.core.error(command, 0)
    assert keyed.server.dbsize() == 0


OPTIONS = """
heartbeat grace-period queue-heartbeat queue-max-concurrency jobs-history
jobs-history-count max-worker-age max-job-history stats-history histogram-history
""".split()


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "value", ["1e300", "-1e300", "1e15", "0.5", "-1", "0", "1e-300"]
)
def test_extreme_options_break_nothing(keyed: Keyed, option: str, value: str) -> None:
    """Jobs go their way, and the namespace stays sound. (Foreign clients may set them.)"""
    keyed.core.old("config.set", 0, option, value)
    for jid in ("a", "b", "c"):
        keyed.put(jid, 1)
    jobs = keyed.take(now=2)
    keyed.settle([], 1, now=3, wait=5)
    for number, job in enumerate(jobs):
        verb = ("complete", "fail", "retry")[number]
        args = {"complete": [], "fail": ["g", "m"], "retry": [0, "g", "m"]}[verb]
        keyed.settle([settlement(job["jid"], job["token"], verb, *args)], now=4)
    keyed.core.put("d", 5)
    keyed.core.pop(6)
    keyed.core.pop(100_000, worker="second")
    keyed.core.pop(200_000, worker="third")
    keyed.core.json("workers", 300_000)
    keyed.json("queues", now=300_000)
    keyed.json("stats", "queue", 0, now=300_000)


#: What stands for names in the calls, and for ids of jobs and schedules.
IDS = set(
    "run waiting dependent failed new n1 n2 lost x cron cron2 minutely s2".split()
)
NAMES = IDS | set("queue side other q empty w f flow gone".split())
#: The counters of the whole namespace have no queue in their names.
UNNAMED = re.compile(r"ql:(?!m::)(.*:)?(:|-|$).*")
WITH_NAMES = [
    *((True, call) for call in KEYED),
    *((False, with_proof(call, "w")) for call in KEYED if call[0] in OLD),
]


def with_each_replaced(call: Call, names: set[str], other: str) -> Iterator[Call]:
    """Yield a call with each of these names replaced in turn."""
    for position, part in enumerate(call[1:], 1):
        if part in names:
            yield (*call[:position], other, *call[position + 1 :])


def keys_after(keyed: Keyed, call: Call, has_keys: bool) -> Snapshot:
    """Make a call on the scene, refused or not; return all keys."""
    refusal = ""
    try:
        if has_keys:
            keyed.call(call[0], *call[1:], now=10)
        else:
            keyed.core.old(call[0], 10, *call[1:])
    except redis.ResponseError as error:
        refusal = str(error)
    assert "WRONGTYPE" not in refusal, call
    return snapshot(keyed.server)


@pytest.mark.parametrize(("has_keys", "good"), WITH_NAMES, ids=name)
def test_nothing_is_stored_under_an_empty_name(
    keyed: Keyed, has_keys: bool, good: Call
) -> None:
    token = scene(keyed)
    dumps = dumped(keyed.server)
    for call in with_each_replaced(good, NAMES, ""):
        found = keys_after(keyed, with_proof(call, token), has_keys)
        assert [key for key in found if UNNAMED.fullmatch(key)] == [], call
        restore(keyed.server, dumps)


@pytest.mark.parametrize(("has_keys", "good"), WITH_NAMES, ids=name)
def test_no_job_is_taken_from_or_put_beside_a_list_of_another(
    keyed: Keyed, has_keys: bool, good: Call
) -> None:
    """`j:x-history` and the like are keys of the job `x`, and no records of jobs."""
    token = scene(keyed)
    keyed.put("x", 4, queue="aside", depends=["later"])
    keyed.call("log", "x", "seen", now=4)
    keyed.put("behind", 4, queue="aside", depends=["x"])
    before, dumps = snapshot(keyed.server), dumped(keyed.server)
    lists = ["x-history", "x-dependencies", "x-dependents"]
    jid = lists[drawing.draw(name(good), len(lists))]
    assert f"ql:j:{jid}" in before
    for call in with_each_replaced(good, IDS, jid):
        after = keys_after(keyed, with_proof(call, token), has_keys)
        changed = {key for key in difference(before, after) if jid in key}
        assert changed == set(), call
        restore(keyed.server, dumps)
