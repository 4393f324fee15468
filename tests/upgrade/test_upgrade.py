"""A namespace that an earlier build has filled, with its workers running, is gone on with.

The earlier build's library and workers stay beside this one's: each puts what the other
runs, each goes on with what the other has begun, and every run is accounted for. What is
stored may change from build to build, as long as this holds.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import redis

from tests.lua.random_run import LEFT_OVER
from tests.real_servers import poll

if TYPE_CHECKING:
    from tests.upgrade.conftest import Builds, Process

PATIENCE = 180
"""Seconds for what takes a few where nothing else runs."""


class Story:
    """What has been put by both builds, and what has become of it."""

    def __init__(self, server: redis.Redis) -> None:
        self.server = server
        #: By jid: the state at its end, the build that runs it ("": either), its runs.
        self.jobs: dict[str, tuple[str, str, int]] = {}
        self.filled: dict[str, dict[str, Any]] = {}

    def fill(self, build: str, client: Process) -> None:
        """Have a build put all kinds of jobs."""
        told = client.ask("fill", build, "new" if build == "old" else "old")
        self.filled[build] = told
        for jid, (state, runner, runs) in told["jobs"].items():
            self.jobs[jid] = (state, runner, runs)

    def runs(self) -> list[tuple[str, str]]:
        """Return each run so far: its jid, and the build that ran it."""
        return [tuple(json.loads(text)) for text in self.server.lrange("runs", 0, -1)]

    def ran(self, jid: str, times: int = 1) -> bool:
        """Return whether a job was begun this often."""
        return Counter(jid for jid, _ in self.runs())[jid] >= times

    def wait_for_failures(self, client: Process, *jids: str) -> None:
        """Wait until these jobs have failed."""
        poll(
            lambda: set(client.ask("states", jids).values()) == {"failed"},
            what=f"the failures of {jids}",
            seconds=PATIENCE,
        )

    def wait_for_states(self, client: Process) -> None:
        """Wait until each job has come to its end."""
        wanted = {jid: state for jid, (state, _, _) in self.jobs.items()}
        found: dict[str, str] = {}

        def is_over() -> bool:
            found.update(client.ask("states", list(wanted)))
            return found == wanted

        try:
            poll(is_over, what="the end of all jobs", seconds=PATIENCE)
        except AssertionError as error:
            left = [(jid, found[jid]) for jid in wanted if found[jid] != wanted[jid]]
            raise AssertionError(f"jobs in other states: {left}") from error

    def check_runs(self, ticks: dict[str, int]) -> None:
        """Every run is one of a job that was put, and was made where it was to be."""
        runs = self.runs()
        counted = Counter(jid for jid, _ in runs)
        for jid, (_, runner, times) in self.jobs.items():
            assert counted.pop(jid, 0) == times, jid
            if runner:
                assert {build for one, build in runs if one == jid} <= {runner}, jid
        for schedule, count in ticks.items():
            of_it = [jid for jid in counted if jid.startswith(schedule)]
            assert len(of_it) == count > 0, schedule
            for jid in of_it:
                assert counted.pop(jid) == 1, jid
        assert not counted, "runs of jobs that nobody has put"


def test_a_namespace_in_use_is_upgraded(builds: Builds) -> None:
    server = builds.server.client(decode_responses=True)
    story = Story(server)

    # The earlier build alone: its worker runs, and another one is killed over a job.
    old = builds.client("old")
    old_worker = builds.worker("old", "old", "both", "paused-old", "--concurrency", "3")
    doomed = builds.worker("old", "doomed")
    held = old.ask("held", "gate", "both")
    orphan = old.ask("held", "never", "doomed")
    for jid in (held, orphan):
        poll(lambda jid=jid: story.ran(jid), what="a running job", seconds=PATIENCE)
    story.fill("old", old)
    doomed.kill()
    story.wait_for_failures(old, "revived-old", "failed-old", "bad-old")

    # This build beside it.
    new_worker = builds.worker(
        "new", "new", "both", "paused-new", "doomed", "--concurrency", "3"
    )
    new = builds.client("new")
    assert new.ask("violations") == []
    story.fill("new", new)
    story.wait_for_failures(new, "revived-new", "failed-new", "bad-new")
    server.set("mended", "1")
    new.ask("take_over", "old")
    old.ask("take_over", "new")

    # The held job has kept its lock all the while; the orphan was taken over.
    story.jobs[orphan] = ("complete", "", 2)
    poll(lambda: story.ran(orphan, 2), what="the orphan's second run", seconds=PATIENCE)
    assert new.ask("states", [held]) == {held: "running"}
    server.rpush("gate", "open")
    story.jobs[held] = ("complete", "old", 1)
    poll(
        lambda: min(new.ask("ticks").values()) >= 2,
        what="ticks of all schedules",
        seconds=PATIENCE,
    )
    ticks = new.ask("stop_ticking")
    assert len(ticks) == 4
    for client in (old, new):
        story.wait_for_states(client)
        poll(lambda client=client: not client.ask("open_places"), what="empty queues")
    for build, client in (("old", new), ("new", old)):
        check_ends(build, story, client)
    story.check_runs(ticks)
    # The earlier build does not know the keys that have come since; this one does.
    told = old.ask("violations")
    assert [words for words in told if not words.endswith(" is none of ours")] == []
    assert new.ask("violations") == []

    # The earlier build leaves, and the namespace drains.
    assert old_worker.end() == 0, old_worker.output
    old.kill()
    new.ask("drain")
    poll(lambda: not new.ask("open_places"), what="empty queues", seconds=PATIENCE)
    assert new_worker.end() == 0, new_worker.output
    new.ask("forget")
    assert new.ask("violations") == []
    left = [
        name
        for name in server.scan_iter("ql:*")
        if not LEFT_OVER.fullmatch(name) and server.ttl(name) == -1
    ]
    assert left == []
    server.close()


def check_ends(build: str, story: Story, client: Process) -> None:
    """The other build reads what this one's jobs have left."""
    travelled, talked, summed, family, kept = client.ask(
        "results",
        [f"{name}-{build}" for name in ("travelled", "talk", "sum", "family", "batch")],
    )
    assert travelled == [{"trace": build}, ["blue", "red"], 7, build]
    assert talked == {"long": "x" * 1000}
    assert (summed, family, kept) == (2, 2, 3)
    flows = story.filled[build]["workflows"]
    states = client.ask("workflow_states", flows)
    assert set(states.values()) == {"complete"}, states
    for result in client.ask("task_results", story.filled[build]["tasks"]):
        assert result == ["SUCCESSFUL", 42, 1]
