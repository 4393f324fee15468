"""What became of the jobs: lost, run again, and whether a failover explains that."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.clusters import Node
from tests.six_nodes import QUEUES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.six_nodes.records import Ledger, Run

#: Ticks that may be on their way when the workers end.
LAST = 5

#: Seconds for which a worker runs what it has reserved at the former primary, before it
#: hears that the reservation was lost.
HELD = 5.0

#: What a node logs when it has become a primary, after the moment.
ELECTED = re.compile(r"(\d+ \w+ \d{4} \d\d:\d\d:\d\d)\.(\d+) . Failover election won")


@dataclass(frozen=True)
class Failover:
    """A primary that failed, and another one in its place."""

    #: The queues of the aliases that it had.
    queues: tuple[str, ...]
    failed: float
    promoted: float
    #: From when on nothing is acknowledged that would be lost. A primary that was killed
    #: acknowledges nothing more; one that hung does, until it follows the other one.
    over: float
    #: Seconds from the promotion until all workers ran jobs of all queues.
    wait: float


@dataclass(frozen=True)
class Elections:
    """When replicas became primaries: as they were to, and by themselves."""

    failovers: list[Failover]
    #: Moments of those that the load has caused: a primary was silent for too long.
    unplanned: list[float]

    def explain(self, first: Run, second: Run) -> bool:
        """Return whether the end of the first run may have been lost before the second."""
        return any(
            first.queue in failover.queues
            and first.at < failover.over + HELD
            and failover.failed < second.at
            for failover in self.failovers
        ) or any(first.at - HELD < moment < second.at for moment in self.unplanned)


@dataclass
class Outcome:
    """What became of the jobs."""

    acknowledged: int
    failovers: list[Failover]
    unplanned: int
    #: Seconds that each move of a slot took, until its queue went on.
    moves: list[float]
    refused: dict[str, int]
    #: Jobs that were acknowledged and never ran.
    lost: list[str]
    #: Jobs and ticks that ran again after a failover, and without one.
    again: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    ticks: int = 0
    #: Ticks that never came though later ones did.
    left_out: list[str] = field(default_factory=list)
    waited: int = 0
    #: Waits that ended with an error for jobs that had run, and such that never ended.
    in_vain: dict[str, str] = field(default_factory=dict)

    @property
    def longest(self) -> float:
        """Seconds from a promotion until all workers ran jobs of all queues, at most."""
        return max((failover.wait for failover in self.failovers), default=0.0)

    def __str__(self) -> str:
        waits = ", ".join(f"{failover.wait:.1f}" for failover in self.failovers)
        return "\n".join(
            (
                f"acknowledged {self.acknowledged}, lost {len(self.lost)} {self.lost[:5]}",
                f"refused {self.refused}",
                f"run again: after a failover {len(self.again)} {self.again[:5]}, "
                f"otherwise {len(self.unexplained)} {self.unexplained[:5]}",
                f"ticks {self.ticks}, left out {self.left_out}",
                f"waits for jobs {self.waited}, in vain {self.in_vain}",
                f"seconds from promotions until all consumed: {waits}",
                f"moves: {', '.join(f'{move:.1f}' for move in self.moves)} s",
                f"elections that were not planned: {self.unplanned}",
            )
        )


def elections(nodes: Iterable[Node], failovers: list[Failover]) -> Elections:
    """Return all elections of replicas, as the nodes have logged them."""
    moments = [
        time.mktime(time.strptime(second, "%d %b %Y %H:%M:%S")) + float(f"0.{part}")
        for node in nodes
        for second, part in ELECTED.findall(node.log)
    ]
    return Elections(
        failovers,
        [
            moment
            for moment in moments
            if not any(each.failed <= moment <= each.promoted for each in failovers)
        ],
    )


def repeated(ledger: Ledger, known: Elections) -> tuple[list[str], list[str]]:
    """Return what ran again after a failover, and what did without one."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in ledger.runs:
        runs[run.name].append(run)
    explained, unexplained = [], []
    for name, its in runs.items():
        for first, second in pairwise(sorted(its, key=lambda run: run.at)):
            is_explained = known.explain(first, second)
            (explained if is_explained else unexplained).append(name)
    return explained, unexplained


def ticks(ledger: Ledger) -> tuple[int, list[str]]:
    """Return how many ticks came, and those that did not, though later ones did."""
    count, left_out = 0, []
    for queue in QUEUES:
        # The ids of their jobs end in the times of the ticks, which are a second apart.
        head = f"tick-{queue}@"
        times = sorted(
            float(name.removeprefix(head))
            for name in ledger.names
            if name.startswith(head)
        )
        count += len(times)
        left_out += [
            f"{head}{earlier}+{n}"
            for earlier, later in pairwise(times)
            if later < times[-1] - LAST
            for n in range(1, round(later - earlier))
        ]
    return count, left_out
