"""Marks on the server of what code has declared, and of what that has replaced.

They stand among the options, under names that no option has.

While a deployment is under way, workers with the old code may start beside those with
the new one. A set of declarations that another one has replaced recently is therefore not
applied again by itself; after ten minutes it is a rollback, and it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from django_qless.core import Client

DEPLOYMENT_SECONDS = 600.0
"""Seconds for which a set that was replaced may be that of workers about to end."""

MOST_EARLIER = 10


def digest_of(wanted: dict[str, Any]) -> str:
    """Return a text that is the same for the same definitions only."""
    text = json.dumps(wanted, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


PREFIX = "declared:"


def read_mark(client: Client, name: str) -> str:
    """Return the text of a mark, "" without one."""
    return str(client.config_get(PREFIX + name) or "")


def write_mark(client: Client, name: str, text: str) -> None:
    """Set a mark."""
    client.config_set(PREFIX + name, text)


def short(id: str) -> str:  # noqa: A002 (what it is)
    """Return the few characters that stand for an id in a mark."""
    return hashlib.sha256(id.encode()).hexdigest()[:12]


class Mark(NamedTuple):
    """The mark of the set that was applied, and of earlier ones."""

    applied: str = ""
    ids: tuple[str, ...] = ()
    """What `short` returns for the ids in that set."""
    earlier: dict[str, float] = {}
    """When each earlier set was replaced, in seconds of the epoch."""

    @classmethod
    def read(cls, text: str) -> Mark:
        """Return the mark that `text()` wrote; an empty one for ""."""
        members = json.loads(text or "{}")
        return cls(
            members.get("applied", ""),
            tuple(members.get("ids", ())),
            members.get("earlier", {}),
        )

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(self._asdict())

    def seconds_until_due(self, digest: str, now: float) -> float:
        """Return how long, in seconds, workers about to end may still have this set."""
        replaced = self.earlier.get(digest)
        return 0.0 if replaced is None else replaced + DEPLOYMENT_SECONDS - now

    def replaced_by(self, digest: str, ids: Iterable[str], now: float) -> Mark:
        """Return the mark for another set, which is applied now."""
        earlier = {each: at for each, at in self.earlier.items() if each != digest}
        if self.applied and self.applied != digest:
            earlier[self.applied] = int(now)
        newest = sorted(earlier.items(), key=lambda each: -each[1])[:MOST_EARLIER]
        return Mark(digest, tuple(map(short, ids)), dict(newest))
