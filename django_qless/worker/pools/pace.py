"""How many jobs to reserve at once: many short ones, but a long one alone."""

from __future__ import annotations

# A batch is to last about this long, in seconds: long against a round trip, short
# against the time within which a finished job is to be settled.
BUDGET = 0.005
MOST = 100

# Seconds from which on somebody may want to see what is running.
SLOW = 0.02


class Pace:
    """The size of the next batch, learned from the last ones.

    Starts at 1 and doubles while whole batches run within the budget; falls at once to
    what fits into the budget, which is 1 for every job that takes milliseconds.
    """

    def __init__(self, most: int = MOST, budget: float = BUDGET) -> None:
        """`most`: never more at once than so many; `budget`: seconds of a batch."""
        self.most = max(1, min(most, MOST))
        self.budget = budget
        self.count = 1
        #: Whether the next job may take its time, as far as one knows.
        self.is_slow = True

    def learn(self, ran: int, seconds: float) -> None:
        """Take in that a batch of `ran` jobs took this long."""
        fitting = int(self.budget * ran / seconds) if seconds > 0 else MOST
        grown = self.count * 2 if ran >= self.count else self.count
        self.count = max(1, min(grown, fitting, self.most))
        self.is_slow = seconds > SLOW * ran

    def rest(self) -> None:
        """Take in that there was nothing to do: what comes next may be different."""
        self.count = 1
        self.is_slow = True
