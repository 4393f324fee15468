"""The audit: looks for what is wrong in the records of a namespace, and changes nothing.

`audit(server, prefix)` reads all keys of a namespace, 200 jobs at a time with all that they
lead to. It asks the server for the names by SCAN. As the server goes on working meanwhile,
what seems wrong is looked at again a moment later, by one transaction: a finding is what is
still so.

It is written apart from the Lua core, from the description of the keys only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from . import jobs, lists, whole
from .remedies import REMEDIES
from .view import PAGE, Finding, Subject, View, judge, packed

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["REMEDIES", "Finding", "audit"]

#: Jobs of one part.
AT_ONCE = 200
#: Seconds until what seems wrong is looked at again.
MOMENT = 0.5

#: What stands behind a record's name in the names of a job's lists.
_PARTS = ("history", "dependencies", "dependents")
#: Keys that need no check: configuration, figures, and what expires.
_PLAIN = re.compile(
    r"config|queues|paused_queues|paused_reasons|workers|tracked|meta|ready|samples|"
    r"releasing|cascading|open_gates|workflows|entity_types|workflow:.+:jobs|gate:.+|"
    r"ended:.+|awaiting:.+|orders:.+",
    re.DOTALL,
)
#: Those that expire.
_EXPIRING = re.compile(
    r"(reply|once|produced|result|offspring|worker|orders|detached|awaiting|ended|unique|"
    r"canceled|canceled_history|timer|wake|m|workflow):.+|"
    r"limit:.+:starts|s:(wait|run|stats):\d+:.+|ticker|glob_waits",
    re.DOTALL,
)
#: How keys are judged: by their names, with what stands in the groups as arguments. Those
#: of `_PAGED` are also given where a page of theirs begins.
_PAGED: list[tuple[str, Callable[..., Iterator[Finding]]]] = [
    (r"q:(.+)-(work|locks|scheduled|depends|parked)", lists.place),
    (r"q:(.+)-recur", lists.templates),
    (r"q:(.+)-(schedules|ticks)", lists.schedules_of),
    (r"w:(.+):jobs", lists.worker),
    (r"t:(.*)", lists.tag),
    (r"tags", lists.tags),
    (r"f:(.*)", lists.group),
    (r"completed", lists.completed),
    (r"children:(.+)", lists.children),
    (r"(schedules|paused_schedules)", lists.schedule_list),
    (r"limit:(.+):parked", lists.parked),
    (r"limit:(.+):holders", lists.holders),
    (r"limit:(.+):order", lists.order),
    (r"parked", lists.limits),
    (r"retrying:(.+)", lists.retrying),
    (r"dead:(.+)", lists.dead_list),
]
_SINGLE: list[tuple[str, Callable[..., Iterator[Finding]]]] = [
    (r"failures", lists.groups),
    (r"needs:(.+)", lists.needs),
    (r"unique:(.+)", lists.unique_key),
    (r"canceled", lists.canceled_list),
    (r"canceled:(.+)", lists.canceled),
    (r"spawners", lists.spawners),
    (r"r:(.+)", lists.template),
    (r"schedule:(.+)", lists.schedule),
    (r"declared_schedules", lists.declared),
    (r"(payloads|taken):(.+)", lists.payloads),
    (r"dead_entity:(.+)", lists.dead),
    (r"dead_payloads:(.+)", lists.dead_payloads),
    (r"workflow:([^:]+)", lists.workflow),
]
_ROWS = [
    *((re.compile(pattern, re.DOTALL), check, True) for pattern, check in _PAGED),
    *((re.compile(pattern, re.DOTALL), check, False) for pattern, check in _SINGLE),
]


def audit(
    server: Redis,
    prefix: str = "ql:",
    *,
    at_once: int = AT_ONCE,
    moment: float | None = MOMENT,
) -> list[Finding]:
    """Return what is wrong in a namespace; an empty list if all is well.

    `server` answers with texts. `at_once` jobs are read together; what concerns the
    namespace as a whole (circles, counters of failures) is only judged if it has no
    more than that. After `moment` seconds what seems wrong is looked at again; None is for
    a server at rest, where once is enough.
    """
    found = dict(_walk(server, prefix, at_once))
    if found and moment is not None:
        time.sleep(moment)
        again = _judged(server, prefix, at_once, iter(found), at_one_moment=True)
        found = {
            subject: [
                each for each in still if _key(each) in set(map(_key, found[subject]))
            ]
            for subject, still in again
        }
    # Two checks may say the same.
    return list(dict.fromkeys(each for findings in found.values() for each in findings))


def _key(finding: Finding) -> tuple[str, str]:
    """Return what is the same in two looks at the same fault: words may tell of times."""
    return finding.about, finding.kind


def _walk(
    server: Redis, prefix: str, at_once: int
) -> Iterator[tuple[Subject, list[Finding]]]:
    """Yield all that seems wrong, with who has found it."""
    names = _Names(server, prefix)
    yield from _judged(server, prefix, at_once, names.subjects())
    if len(names.jids) <= at_once:
        jids = tuple(names.jids)
        remaining: list[Subject] = [
            (whole.failed_counts, jids, tuple(names.counters)),
            (whole.circles, jids),
            (whole.sleeping, tuple(names.queues), tuple(names.limits)),
        ]
        yield from _judged(server, prefix, at_once, iter(remaining))


def _judged(
    server: Redis,
    prefix: str,
    at_once: int,
    subjects: Iterator[Subject],
    *,
    at_one_moment: bool = False,
) -> Iterator[tuple[Subject, list[Finding]]]:
    """Yield what seems wrong of subjects, of which `at_once` are judged together."""
    while batch := list(islice(subjects, at_once)):
        for subject, findings in judge(
            server, prefix, batch, at_one_moment=at_one_moment
        ):
            if findings:
                yield subject, findings


class _Names:
    """The names of a namespace's keys, sorted by what they hold."""

    def __init__(self, server: Redis, prefix: str) -> None:
        self._server, self._prefix = server, prefix
        #: The jobs, at most some more than one part has; then there are more.
        self.jids: dict[str, None] = {}
        self.queues: dict[str, None] = {}
        self.limits: dict[str, None] = {}
        #: Counters by day and queue.
        self.counters: dict[str, None] = {}

    def subjects(self) -> Iterator[Subject]:
        """Yield what is to be judged."""
        yield (lists.letters,)
        escaped = re.sub(r"([*?\[\]\\^])", r"\\\1", self._prefix)
        ask: Any = self._server.execute_command
        cursor: int | str | None = None
        while cursor is None or int(cursor):
            question = ("SCAN", cursor or 0, "MATCH", f"{escaped}*", "COUNT", 1000)
            cursor, names = ask(*packed(question))
            for name in names:
                yield from self._of_key(name.removeprefix(self._prefix))

    def _of_key(self, name: str) -> Iterator[Subject]:
        is_expiring = bool(_EXPIRING.fullmatch(name))
        if not is_expiring:
            yield (_for_ever, name)
        if name.startswith("j:"):
            yield from self._of_job(name.removeprefix("j:"))
            return
        for pattern, check, is_paged in _ROWS:
            match = pattern.fullmatch(name)
            if match is None:
                continue
            self._note(name, match)
            if is_paged:
                yield from self._pages(name, check, match.groups())
            else:
                yield (check, *match.groups())
            return
        if name.startswith("s:stats:"):
            self.counters[name.removeprefix("s:stats:")] = None
        if not is_expiring and not _PLAIN.fullmatch(name):
            yield (_unknown, name)

    def _of_job(self, name: str) -> Iterator[Subject]:
        jid, _, part = name.rpartition("-")
        if part not in _PARTS:
            self.jids[name] = None
            yield (jobs.job, name)
            return
        yield (lists.part_of, jid, part)
        if part == "dependents":
            yield (jobs.dependents, jid)

    def _note(self, name: str, match: re.Match[str]) -> None:
        if name.startswith("q:"):
            self.queues[match[1]] = None
        elif name.startswith("limit:") and name.endswith(":parked"):
            self.limits[match[1]] = None

    def _pages(
        self, name: str, check: Callable[..., Iterator[Finding]], args: tuple[Any, ...]
    ) -> Iterator[Subject]:
        """Yield the pages of a list. Its length is asked for: it may be long."""
        command = "LLEN" if name.startswith("f:") else "ZCARD"
        size = self._size(command, name)
        for start in range(0, max(size, 1), PAGE):
            yield (check, *args, start)

    def _size(self, command: str, name: str) -> int:
        ask: Any = self._server.execute_command
        try:
            return int(ask(*packed((command, self._prefix + name))))
        except ResponseError:  # It is no list: the check says so.
            return 0


def _for_ever(view: View, name: str) -> Iterator[Finding]:
    """Judge a key that is not to expire."""
    if view.seconds(name) >= 0:
        yield Finding(name, "key", f"key {name} expires")


def _unknown(view: View, name: str) -> Iterator[Finding]:
    if view.exists(name):
        yield Finding(name, "key", f"key {name} is unknown")
