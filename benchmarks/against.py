"""Two builds of django_qless beside each other, on one server, in turn.

    python -m benchmarks.run --against COMMIT        this tree against an earlier commit
    python -m benchmarks.run --against COMMIT --workload "batches of 50"    one workload
    python -m benchmarks.run --against COMMIT --instructions    a busy machine will do

Each pair is one measurement of either build, one right after the other, the first of them
now this and now that. What counts is the median of the ratios within the pairs. Its spread
is the interval in which that median lies with a confidence of about 95 % (by the order
statistics of the ratios: no distribution is assumed).
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .commits import unpacked
from .drain import Drain
from .processes import ROOT, site
from .server import Server
from .workload import WORK, of_server

Costs = dict[str, float]

PAIRS = 10

#: Jobs of each measurement.
COUNTS = {"batches of 50": 5000, "enqueue_many": 10000}
SINGLES = 1500
DRAINED = 10000

#: The ratio, new to old, that still counts as unchanged. Counts have to be equal.
BOUNDS = {
    "server µs": (0.97, 1.03),
    "instructions": (0.97, 1.03),
    "jobs/s": (0.95, 1.05),
    "memory": (0.98, 1.02),
}
EQUAL = (0.995, 1.005)

#: (N, K): of N ratios or more, the K least and the K greatest are left out of the spread.
LEFT_OUT = ((17, 4), (15, 3), (12, 2), (9, 1))


@dataclass(frozen=True)
class Ratio:
    """Comparison of one figure of a workload: new to old, pair by pair."""

    name: str
    old: list[float]
    new: list[float]

    @property
    def ratios(self) -> list[float]:
        return sorted(new / old for old, new in zip(self.old, self.new, strict=True))

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        ratios = self.ratios
        cut = next((cut for least, cut in LEFT_OUT if len(ratios) >= least), 0)
        return ratios[cut], ratios[-1 - cut]

    @property
    def verdict(self) -> str:
        """Verdict: equal, better, worse, or uncertain."""
        low, high = self.spread
        least, most = BOUNDS.get(self.name, EQUAL)
        if least <= low and high <= most:
            return "unchanged"
        if high < 1 or low > 1:
            better = (self.median > 1) == (self.name == "jobs/s")
            return "**better**" if better else "**worse**"
        return "repeat it: the spread is too wide"


def compare(server: Server, commit: str, names: list[str], pairs: int) -> Iterator[str]:
    """Yield the lines of a Markdown table of this tree against a commit.

    Those of a workload come as soon as it is measured. `names` are workloads, all if there
    are none. Raises ValueError if the commit is unknown.
    """
    with stages(commit) as (old, new):
        yield "| workload | figure | old | new | new ÷ old | spread | |"
        yield "|---|---|---|---|---|---|---|"
        for name, workload in WORKLOADS.items():
            if names and name not in names:
                continue
            print(f"  {name}", end="", file=sys.stderr, flush=True)
            measured: dict[Path, list[Costs]] = {old: [], new: []}
            for pair in range(pairs):
                for stage in (old, new) if pair % 2 else (new, old):
                    measured[stage].append(workload(server, stage))
                print(".", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
            for ratio in paired(measured[old], measured[new]):
                yield row(name, ratio)


def paired(old: list[Costs], new: list[Costs]) -> list[Ratio]:
    """Return the figures of a workload, each with its pairs."""
    return [
        Ratio(name, [costs[name] for costs in old], [costs[name] for costs in new])
        for name in old[0]
    ]


def row(name: str, ratio: Ratio) -> str:
    """Return a line of the table."""
    low, high = ratio.spread
    cells = [
        name,
        ratio.name,
        f"{statistics.median(ratio.old):,.2f}",
        f"{statistics.median(ratio.new):,.2f}",
        f"{ratio.median:.3f}",
        f"{low:.3f}–{high:.3f}",
        ratio.verdict,
    ]
    return f"| {' | '.join(cells)} |"


@contextlib.contextmanager
def stages(commit: str) -> Iterator[tuple[Path, Path]]:
    """Folders from which the commit's package and this tree's are imported.

    Both have these benchmarks beside it: what is measured is the package.
    """
    with (
        unpacked(commit, "django_qless") as earlier,
        tempfile.TemporaryDirectory(prefix="django-qless-against-") as name,
    ):
        folder = Path(name)
        built = {"old": earlier, "new": ROOT}
        for stage, root in built.items():
            (folder / stage).mkdir()
            (folder / stage / "django_qless").symlink_to(root / "django_qless")
            (folder / stage / "benchmarks").symlink_to(ROOT / "benchmarks")
        yield folder / "old", folder / "new"


def _alone(what: str, server: Server, stage: Path) -> Costs:
    """Run a workload in a separate process."""
    with site(server, stage) as project:
        costs: Costs = project.work(what, COUNTS.get(what, SINGLES))
    return costs


def _drained(options: tuple[str, ...], server: Server, stage: Path) -> Costs:
    """Let a worker drain a queue. Its start is in the server's costs, not in the rate."""
    with site(server, stage) as project:
        project.produce("fill", DRAINED)
        before = server.client.info("everything")
        with project.worker(*options) as family:
            rate = Drain(project, family, DRAINED, weigh=False).rate()
        costs = of_server(before, server.client.info("everything"), DRAINED)
    # How often a worker asks what there is depends on its pace, and what watches it asks
    # the server too: its commands and bytes are no counts that have to be equal.
    return {"jobs/s": rate, "server µs": costs["server µs"]}


def _queued(server: Server, stage: Path) -> Costs:
    """Weigh queued jobs. A batch before: the core, and what exists once, do not count."""
    with site(server, stage) as project:
        project.produce("fill", 1000)
        before = server.usage()
        project.produce("fill", DRAINED)
        return {"memory": (server.usage() - before).memory / DRAINED}


WORKLOADS: dict[str, Callable[[Server, Path], Costs]] = {
    **{name: partial(_alone, name) for name in WORK},
    "queued jobs": _queued,
    "drain": partial(_drained, ()),
}
