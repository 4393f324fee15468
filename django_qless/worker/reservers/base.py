"""What all reservers have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from django_qless.worker.queue_book import is_glob, matches_any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_qless.core import Reserved
    from django_qless.worker.queue_book import QueueBook

# Names in one question; the server finds the others by their globs.
MOST_NAMES = 500


class Reserver:
    """A strategy: which queues are asked for the next jobs, and in what order?

    Each process of a pool has its own, used by one thread. The server takes from the
    first queue of the order as long as it has jobs, then from the second; paused queues
    it passes over. Globs it expands by itself, so the strategies end their orders with
    them: a queue that has appeared just now is found.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for people."""
    turns: ClassVar[bool] = False
    """Whether a batch takes jobs from the queues in turn, not all from the first."""
    reads_book: ClassVar[bool] = True
    """Whether it must know more of the queues than what they are called."""

    def __init__(
        self,
        queues: Sequence[str],
        exclude: Sequence[str] = (),
        book: QueueBook | None = None,
    ) -> None:
        """Serve these names and globs, without what `exclude` names.

        Without a book, weights and lags are equal, and globs are left to the server.
        """
        self.queues = tuple(queues)
        self.exclude = tuple(exclude)
        self.book = book
        self.globs = tuple(name for name in self.queues if is_glob(name))
        self.named = tuple(
            name
            for name in dict.fromkeys(self.queues)
            if not is_glob(name) and not matches_any(name, self.exclude)
        )
        self.begin()

    def begin(self) -> None:
        """Make what the strategy remembers from one question to the next."""

    @property
    def looks_up(self) -> bool:
        """Whether `order` may have to ask the server."""
        return self.book is not None and (self.reads_book or bool(self.globs))

    def order(self) -> Sequence[str]:
        """Return names and globs in the order in which to ask them now."""
        # The one thing that each strategy has to say; the hooks around it may stay empty.
        raise NotImplementedError

    def took(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Take in what came when the queues were asked in this order, maybe nothing."""

    def arrange(self, jobs: Sequence[Reserved]) -> Sequence[Reserved]:
        """Return jobs that came in one answer in the order in which to run them."""
        return jobs

    def gave_back(self, jobs: Sequence[Reserved]) -> None:
        """Take in that these jobs, the next to run, go back and will come again."""

    def candidates(self) -> Sequence[str]:
        """Return the names of all queues to choose from, as far as they are known."""
        if self.book is None:
            return self.named
        if self.looks_up:
            self.book.refresh()
        if not self.globs:
            return self.named
        return self.book.expand(self.queues, self.exclude)

    def question(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return an order: these names, and behind them what else there may be."""
        return (*list(names)[:MOST_NAMES], *self.globs)
