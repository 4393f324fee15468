"""The options of a namespace that the core knows, and their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Option(NamedTuple):
    """An option of the core."""

    name: str
    default: str | int
    meaning: str


OPTIONS = (
    Option("heartbeat", 60, "seconds that a lock lasts unless it is renewed"),
    Option(
        "grace-period",
        10,
        "seconds from the notice that a lock is lost to the next run",
    ),
    Option("jobs-history", 604800, "seconds for which completed jobs are kept"),
    Option("jobs-history-count", 50000, "how many completed jobs are kept"),
    Option("canceled-history", 86400, "seconds for which canceled jobs are remembered"),
    Option("max-job-history", 100, "how many entries the history of a job keeps"),
    Option("stats-history", 30, "days for which statistics are kept"),
    Option(
        "histogram-history", 7, "days for which histograms of waits and runs are kept"
    ),
    Option("max-worker-age", 86400, "seconds after which a silent worker is forgotten"),
    Option("application", "qless", "a name for this namespace, for people"),
)

#: What may stand behind a queue's name and a hyphen.
OF_A_QUEUE = (
    Option("heartbeat", "", "seconds that a lock of one of its jobs lasts"),
    Option("max-concurrency", 0, "how many of its jobs may run at once; 0: any number"),
    Option("rate", "0", "how often its jobs may start, such as 100/m; 0: any number"),
    Option("weight", 1, "its share of the draws of the lottery reservers; 0: none"),
    Option(
        "failed-queue",
        "",
        "the queue that its jobs go to when they have failed for good",
    ),
)

#: Those of a queue that are no numbers.
TEXTS_OF_A_QUEUE = frozenset({"failed-queue"})

#: Numbers of jobs: whole numbers, of which 0 stands for any number.
JOBS = ("max-concurrency", "max-concurrency-of-type", "max-concurrency-per-key")

#: Those that are rates.
RATES = ("rate", "rate-of-type", "rate-per-key")

#: What may stand behind the name of a job type and a hyphen.
OF_A_TYPE = (
    Option("max-concurrency-of-type", 0, "how many of its jobs may run at once"),
    Option("rate-of-type", "0", "how often its jobs may start, as 100/m"),
    Option("max-concurrency-per-key", 0, "how many jobs of each key may run at once"),
    Option("rate-per-key", "0", "how often jobs of each key may start, as 10/s"),
)

#: The same, for the names that a job type had before.
RENAMED = Option("renamed-to", "", "the name of the job type by now, for its limits")


def known(name: str) -> Option | None:
    """Return the description of an option, also of a queue or a type; else None."""
    for option in OPTIONS:
        if option.name == name:
            return option
    for option in (*OF_A_QUEUE, *OF_A_TYPE, RENAMED):
        if name.endswith(f"-{option.name}") and name != f"-{option.name}":
            return option._replace(name=name)
    return None


def is_of(name: str, kinds: Sequence[str]) -> bool:
    """Return whether a name is an option of a queue or a type, of one of these kinds."""
    return name.endswith(tuple(f"-{kind}" for kind in kinds))
