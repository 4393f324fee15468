"""What an earlier build has left, its workers still running, the workers of this one end.

Nothing is asked of the earlier build any more once this one has begun, for it may be
refused: what is stored may have another format from then on.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.lua.random_run import LEFT_OVER
from tests.real_servers import poll
from tests.upgrade.test_upgrade import PATIENCE, Story

if TYPE_CHECKING:
    from tests.upgrade.conftest import Builds, Process

STATES = {
    *("waiting", "scheduled", "depends", "running", "stalled", "failed"),
    *("complete", "canceled"),
}
#: Who declares schedules is not forgotten.
MARKS = "ql:schedule_marks"
INTERVALS = ("interval", "left", "declared_tick", "bare-tick")


class Leavings:
    """A namespace in which an earlier build has left jobs of every kind."""

    def __init__(self, builds: Builds) -> None:
        self.server = builds.server.client(decode_responses=True)
        self.story = Story(self.server)
        self.client = builds.client("old")
        self.worker = builds.worker("old", "both", "crashing", "--concurrency", "8")
        doomed = builds.worker("old", "doomed", "--concurrency", "2")
        ask = self.client.ask
        self.running: dict[str, str] = ask("leave_running")
        for name, jid in self.running.items():
            self.wait_for_run(jid, name)
        ask("leave_recurring")
        ask("leave_ended")
        self.story.wait_for_failures(self.client, "revived", "failed")
        for jid in ("crashes", "stumbles", "father"):
            self.wait_for_run(jid, jid)
        doomed.kill()
        ask("time_out", self.running["timed out"])
        self.made: dict[str, Any] = ask("leave_waiting", self.running)
        self.story.wait_for_failures(self.client, "bad")
        self.told: dict[str, tuple[str, int]] = ask("all_told")
        for name in ("killed", "timed out"):
            self.told[self.running[name]] = ("complete", 2)
        self.format = self.server.hget("ql:meta", "format")

    def wait_for_run(self, jid: str, what: str) -> None:
        poll(lambda: self.story.ran(jid), what=f"the run of {what}", seconds=PATIENCE)

    @property
    def is_refused(self) -> bool:
        """Whether the earlier build cannot read any more what is stored."""
        return bool(self.server.hget("ql:meta", "format") != self.format)

    def check_runs(self, ticks: dict[str, int]) -> None:
        """Every job was run as often as it was to be, every tick once.

        Where the earlier build is refused, what its workers were at was run again.
        """
        counted = Counter(jid for jid, _ in self.story.runs())
        more = 1 if self.is_refused else 0
        for jid, (_, times) in self.told.items():
            assert times <= counted.pop(jid, 0) <= times + more, jid
        for schedule, count in ticks.items():
            of_it = [jid for jid in counted if jid.startswith(schedule)]
            assert len(of_it) == count, schedule
            for jid in of_it:
                assert counted.pop(jid) <= 1 + more, jid
        assert not counted, "runs of jobs that nobody has put"


def test_what_was_left_is_ended_by_the_workers_of_this_build(builds: Builds) -> None:
    builds.environment["SHOP_DECLARES"] = "1"
    left = Leavings(builds)
    found = left.client.ask("states", list(left.told))
    assert set(found.values()) == STATES
    before = left.client.ask("ticks")
    left.client.kill()

    # Workers of this build start beside those of the earlier one.
    queues = ("left", "both", "doomed", "crashing", "paused", "one", "taken", "new")
    worker = builds.worker("new", *queues, "--concurrency", "8")
    new = builds.client("new")
    assert new.ask("violations") == []
    left.server.set("mended", "1")
    new.ask("go_on")
    for name in ("kept", "first", "midway"):
        left.server.rpush(f"gate {name}", "open")
    poll(
        lambda: have_ticked(before, new.ask("ticks")),
        what="ticks of all intervals",
        seconds=PATIENCE,
    )
    ticks = new.ask("stop_ticking")
    wait_for_ends(left, new)
    check_results(left, new)
    left.check_runs(ticks)
    assert new.ask("violations") == []

    # The earlier workers leave; nothing of what they knew stays.
    if left.is_refused:
        left.worker.kill()
    else:
        assert left.worker.end() == 0, left.worker.output
    new.ask("drain")
    poll(lambda: not new.ask("open_places"), what="empty queues", seconds=PATIENCE)
    assert worker.end() == 0, worker.output
    new.ask("forget")
    assert new.ask("violations") == []
    names = [
        name
        for name in left.server.scan_iter("ql:*")
        if not LEFT_OVER.fullmatch(name) and left.server.ttl(name) == -1
    ]
    assert names == [MARKS]
    left.server.close()


def have_ticked(before: dict[str, int], now: dict[str, int]) -> bool:
    """Return whether each schedule by seconds has put two jobs more."""
    grown = [now[each] - before[each] for each in now if each.endswith(INTERVALS)]
    return len(grown) == len(INTERVALS) and min(grown) >= 2


def wait_for_ends(left: Leavings, new: Process) -> None:
    """Wait until each job has come to the end that it is to have."""
    wanted = {jid: state for jid, (state, _) in left.told.items()}
    found: dict[str, str] = {}

    def are_all_over() -> bool:
        found.update(new.ask("states", list(wanted)))
        return found == wanted and not new.ask("open_places")

    try:
        poll(are_all_over, what="the end of all jobs", seconds=PATIENCE)
    except AssertionError as error:
        others = {jid: found[jid] for jid in wanted if found[jid] != wanted[jid]}
        raise AssertionError(f"{others}, {new.ask('open_places')}") from error


def check_results(left: Leavings, new: Process) -> None:
    """What was returned before and after is there."""
    jids = ["talk", "travelled", "second", "third", "family", "end", "both"]
    talked, travelled, *sums = new.ask("results", [*jids, left.running["kept"]])
    assert talked == {"long": "x" * 1000}
    assert travelled == [{"trace": "old"}, ["blue", "red"], 7, "old"]
    assert sums[:5] == [1, 2, 2, 2, 3]
    assert sums[5] in ("old", "new")
    assert new.ask("task_results", [left.made["task"]]) == [["SUCCESSFUL", 42, 1]]
    states = new.ask("workflow_states", [*left.made["flows"], left.made["cut"]])
    assert [states[flow] for flow in left.made["flows"]] == ["complete"] * 2
