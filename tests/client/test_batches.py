"""What is too much for one call becomes several."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Client, JobNotFound, Put, ServerFull, Settlement, new_jid
from django_qless.core.commands.entities import Payload, _parts
from tests.client.jobs import Make

if TYPE_CHECKING:
    from tests.client.cutter import Cutter
    from tests.real_servers import Server


def calls(server: Server) -> int:
    """Return how many calls of the core the server has served since resetstat."""
    with server.client() as probe:
        stats = probe.info("commandstats")
    served: int = stats.get("cmdstat_fcall", {"calls": 0})["calls"]
    return served


@pytest.fixture
def ready(valkey: Make, server: Server) -> Client:
    """A client whose core is loaded, on a server that has counted nothing."""
    client = valkey()
    client.pause("nothing")
    with server.client() as probe:
        probe.config_resetstat()
    return client


def items(count: int, data: str = "{}", **options: object) -> list[Put]:
    """Return a number of jobs to put."""
    return [Put(new_jid(), "q", "k", data, **options) for _ in range(count)]


def test_put_many_cuts_at_a_thousand(ready: Client, server: Server) -> None:
    jobs = items(2_500)
    assert ready.put_many("", jobs) == ([], {})
    assert calls(server) == 3
    assert ready.length("q") == 2_500
    popped: list[str] = []
    while found := ready.settle("w", [], 250, ["q"]).jobs:
        popped += [job.jid for job in found]
    assert popped == [job.jid for job in jobs], "in the order given"


def test_put_many_cuts_at_a_mebibyte(ready: Client, server: Server) -> None:
    jobs = items(5, json.dumps("x" * (400 * 1024)))
    ready.put_many("", jobs)
    assert calls(server) == 3
    assert ready.length("q") == 5


def test_the_largest_item_is_a_call_of_its_own(ready: Client) -> None:
    largest = Put(
        "j" * 255,
        "q" * 255,
        "k" * 255,
        json.dumps("x" * (512 * 1024 - 2)),
        tags=[f"{number:0255}" for number in range(32)],
        context=json.dumps({"x": "y" * 65_500}),
    )
    ready.put_many("w" * 255, [*items(1), largest, *items(1)])
    job = ready.get("j" * 255)
    assert job is not None
    assert len(job.data) == 512 * 1024
    assert len(job.tags) == 32


def test_what_was_left_alone_is_told_of_all_parts(ready: Client) -> None:
    jobs = items(1_500, absent=True)
    ready.put_many("", [jobs[3], jobs[1_400]])
    left = [jobs[3].jid, jobs[1_400].jid]
    assert ready.put_many("", jobs) == (left, {})


def test_a_bad_item_in_a_late_part_stops_all(ready: Client, server: Server) -> None:
    with pytest.raises(ValueError, match="item 2000"):
        ready.put_many("", [*items(2_000), Put("", "q", "k", "{}")])
    assert calls(server) == 0


def test_a_failing_part_tells_what_was_done_before(ready: Client) -> None:
    bad = Put("bad", "q", "k", "{}", depends=["nobody"])
    with pytest.raises(JobNotFound, match="The 2000 items before") as caught:
        ready.put_many("", [*items(2_100), bad, *items(10)])
    assert caught.value.done == 2_000
    assert ready.length("q") == 2_000


def test_a_server_that_fills_up_half_way(ready: Client, server: Server) -> None:
    with server.client() as admin:
        used = admin.info("memory")["used_memory"]
        admin.config_set("maxmemory", used + 3 * 1024 * 1024)
        try:
            with pytest.raises(ServerFull) as caught:
                ready.put_many("", items(30_000))
        finally:
            admin.config_set("maxmemory", 0)
    assert caught.value.done % 1_000 == 0
    assert ready.length("q") == caught.value.done


def test_a_lost_reply_in_the_middle_of_a_batch(valkey: Make, cutter: Cutter) -> None:
    client = valkey(cutter.path)
    cutter.cut("\r\nput.many\r\n", times=2)
    assert client.put_many("", items(1_500, absent=True)) == ([], {})
    assert cutter.cuts == 2
    assert client.length("q") == 1_500


@pytest.mark.parametrize(
    ("done", "count", "expected"),
    [
        *[(0, 0, 1), (0, 250, 1), (0, 999, 1), (200, 50, 1), (250, 0, 1)],
        *[(201, 50, 2), (250, 1, 2), (600, 0, 3), (600, 50, 3), (600, 200, 4)],
    ],
)
def test_settle_never_handles_more_than_250(
    ready: Client, server: Server, done: int, count: int, expected: int
) -> None:
    ready.put_many("", items(900))
    held = []
    for part in (250, 250, 100):
        held += ready.settle("w", [], part, ["q"]).jobs
    with server.client() as probe:
        probe.config_resetstat()
    settlements = [Settlement(job.jid, job.token, "complete") for job in held[:done]]
    answer = ready.settle("w", settlements, count, ["q"])
    assert calls(server) == expected
    assert len(answer.jobs) == min(count, 250)
    assert answer.refused == []
    assert len(ready.completed(count=1_000)) == done


def test_settle_cuts_at_a_mebibyte_and_adds_up_the_refused(
    ready: Client, server: Server
) -> None:
    message = "m" * 60_000
    settlements = [
        Settlement(f"nobody-{number}", "1", "fail", ("g", message))
        for number in range(40)
    ]
    answer = ready.settle("w", settlements, 1, ["q"])
    assert [refused.jid for refused in answer.refused] == [s.jid for s in settlements]
    assert calls(server) == 3


def test_multiget_and_beat_are_cut(ready: Client, server: Server) -> None:
    jobs = items(600)
    ready.put_many("", jobs)
    with server.client() as probe:
        probe.config_resetstat()
    found = ready.multiget([job.jid for job in jobs])
    assert [job.jid for job in found] == [job.jid for job in jobs]
    assert calls(server) == 3
    lost = ready.beat("w", "", [(job.jid, "1") for job in items(1_700)]).lost
    assert len(lost) == 1_700
    assert calls(server) == 5


def test_payloads_are_cut_by_the_bytes_that_they_may_have_as_json() -> None:
    data = '{"v":1,"entity":"e"}'

    def sizes(text: str, number: int) -> list[int]:
        payloads = [Payload("e", data, f'"{text}"')] * number
        return [len(part) for part in _parts(payloads)]

    # A third more, and if they are not ASCII three times as much.
    assert sizes("x" * 300_000, 5) == [2, 2, 1]
    assert sizes("ä" * 150_000, 5) == [1, 1, 1, 1, 1]
    assert sizes("ä" * 120_000, 5) == [2, 2, 1]
    assert sizes("x", 2500) == [1000, 1000, 500]
