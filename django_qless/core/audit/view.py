"""What an audit reads: a part of a namespace.

Checks ask a `View`, which knows the server's replies so far. What it does not know yet it
notes, and answers as if there were nothing; `judge` then asks the server, and has the checks
look again, until nothing is new. So a check is a plain function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from redis import Redis
from redis.exceptions import ExecAbortError, OutOfMemoryError, RedisError

#: Members of a set, or of a list, that are looked at together.
PAGE = 200
#: The most members of a set that are read as a whole.
MOST_MEMBERS = 1000
#: Questions in one transaction, unless a single subject asks more.
MOST_QUESTIONS = 20_000
#: Rounds of questions: what leads to more is no sound record.
MOST_ROUNDS = 25

#: The fields of a record but for `data`, which may be large.
FIELDS = tuple(
    "klass priority tags state worker expires queue retries remaining time failure "
    "spawned_from_jid grace scheduled token put noted context progress crashes unknown "
    "returned failed_from on_failure behind cascade more "
    "deadline unique first entity home batch limit_key holds parked fair_by workflow "
    "parent spawned spawns once".split()
)

_ABSENT = object()

Question: TypeAlias = tuple[str | int, ...]


class Finding(NamedTuple):
    """One thing that is wrong: what about, of what kind, and in words."""

    #: The job, queue, workflow … that it is about.
    about: str
    #: The kind, which decides on the remedy.
    kind: str
    #: What is wrong.
    text: str


#: A check with what it is to look at. Its findings are of this moment.
Subject: TypeAlias = tuple[Callable[..., Iterator[Finding]], *tuple[Any, ...]]


class Unreadable(Exception):
    """The server has no such value as was asked for: another type, mostly."""


class View:
    """Some keys of a namespace at one moment. Names are given without the prefix."""

    def __init__(self, prefix: str, replies: dict[Question, Any]) -> None:
        self._prefix = prefix
        self._replies = replies
        #: What was asked.
        self.questions: dict[Question, None] = {}

    def ask(self, empty: Any, command: str, name: str, *args: str | int) -> Any:
        """Return the reply to a command on a key; `empty` if it is not known yet."""
        question = (command, self._prefix + name, *args)
        self.questions[question] = None
        reply = self._replies.get(question, _ABSENT)
        if reply is _ABSENT:
            return empty
        if isinstance(reply, RedisError):
            raise Unreadable(f"{name}: {reply}")
        return reply

    def job(self, jid: str) -> dict[str, str]:
        """Return a job's record without its data; an empty one if there is none."""
        values = self.ask([], "HMGET", f"j:{jid}", *FIELDS)
        return {
            field: value
            for field, value in zip(FIELDS, values, strict=False)
            if value is not None
        }

    def hash(self, name: str) -> dict[str, str]:
        """Return a small hash."""
        reply = self.ask({}, "HGETALL", name)
        if isinstance(reply, dict):
            return reply
        return dict(zip(reply[::2], reply[1::2], strict=True))

    def meta(self) -> dict[str, str]:
        """Return what is noted of the namespace."""
        return self.hash("meta")

    def uses(self, letter: str) -> bool:
        """Say whether a letter stands among those in use."""
        return letter in self.meta().get("uses", "")

    def exists(self, name: str) -> bool:
        """Say whether a key exists."""
        return bool(self.ask(0, "EXISTS", name))

    def seconds(self, name: str) -> int:
        """Return for how long a key is kept yet; -1: for ever, -2: there is none."""
        return int(self.ask(-2, "TTL", name))

    def members(self, name: str) -> set[str]:
        """Return the members of a set, of a very large one some."""
        if self.ask(0, "SCARD", name) > MOST_MEMBERS:
            return set(self.ask((0, []), "SSCAN", name, 0, "COUNT", MOST_MEMBERS)[1])
        return set(self.ask((), "SMEMBERS", name))

    def has(self, name: str, member: str) -> bool:
        """Say whether a set has a member."""
        return bool(self.ask(0, "SISMEMBER", name, member))

    def score(self, name: str, member: str) -> float | None:
        """Return the score of a member, None if the sorted set does not have it."""
        found = self.ask(None, "ZSCORE", name, member)
        return None if found is None else float(found)

    def scores(self, name: str, start: int = 0, count: int = PAGE) -> dict[str, float]:
        """Return some members of a sorted set with their scores, the lowest first."""
        return dict(self.range(name, start, start + count - 1))

    def range(self, name: str, first: int, last: int) -> list[tuple[str, float]]:
        """Return members of a sorted set by their ranks, with their scores."""
        reply = self.ask([], "ZRANGE", name, first, last, "WITHSCORES")
        if reply and not isinstance(reply[0], str):  # Versions of redis-py differ.
            return [(member, float(score)) for member, score in reply]
        return list(zip(reply[::2], map(float, reply[1::2]), strict=True))

    def size(self, name: str) -> int:
        """Return the number of members of a sorted set."""
        return int(self.ask(0, "ZCARD", name))

    def items(self, name: str, start: int = 0, count: int = PAGE) -> list[str]:
        """Return some elements of a list."""
        found: list[str] = self.ask([], "LRANGE", name, start, start + count - 1)
        return found


def _found(view: View, subject: Subject) -> Iterator[Finding]:
    check, *args = subject
    try:
        yield from check(view, *args)
    except (Unreadable, KeyError, ValueError, TypeError, AttributeError) as error:
        about = str(args[0]) if args else check.__name__
        text = f"{about} cannot be judged: {type(error).__name__} {error}"
        yield Finding(about, "unreadable", text)


def packed(question: Question) -> list[bytes | int]:
    """Return a command whose names are bytes: hiredis packs no surrogates."""
    return [
        part.encode(errors="surrogateescape") if isinstance(part, str) else part
        for part in question
    ]


def _at_one_moment(server: Redis, questions: Sequence[Question]) -> list[Any]:
    try:
        return _asked(server, questions, in_transaction=True)
    except (OutOfMemoryError, ExecAbortError):
        # A full server before Redis 7.2 answers, but not within a transaction. (What seems
        # wrong has been looked at twice then, all the same.)
        return _asked(server, questions)


def _asked(
    server: Redis, questions: Sequence[Question], *, in_transaction: bool = False
) -> list[Any]:
    pipe = server.pipeline(transaction=in_transaction)
    for question in questions:
        pipe.execute_command(*packed(question))  # type: ignore[no-untyped-call]
    return pipe.execute(raise_on_error=False)


def judge(
    server: Redis, prefix: str, subjects: Sequence[Subject], *, at_one_moment: bool
) -> Iterator[tuple[Subject, list[Finding]]]:
    """Yield each subject with what is wrong with it.

    With `at_one_moment` all questions are asked again when some are new, in one
    transaction. Without, each is asked once: if the namespace changes meanwhile, more may
    seem wrong than is.
    """
    replies: dict[Question, Any] = {}
    for _ in range(MOST_ROUNDS):
        view = View(prefix, replies)
        found = [(subject, list(_found(view, subject))) for subject in subjects]
        new = [each for each in view.questions if each not in replies]
        if not new:
            break
        asked = list(view.questions) if at_one_moment else new
        if len(asked) > MOST_QUESTIONS and len(subjects) > 1:
            half = len(subjects) // 2
            for part in (subjects[:half], subjects[half:]):
                yield from judge(server, prefix, part, at_one_moment=at_one_moment)
            return
        if at_one_moment:
            replies = dict(zip(asked, _at_one_moment(server, asked), strict=True))
        else:
            replies.update(zip(asked, _asked(server, asked), strict=True))
    yield from found
