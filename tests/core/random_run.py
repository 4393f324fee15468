"""Makes random operations, checks the invariants, and shortens what failed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import redis

from tests.core.caller import READS, Core
from tests.core.invariants import violations
from tests.core.keyed import Keyed, settlement
from tests.core.keyspace import difference, digest, snapshot
from tests.core.operations import (
    ENTITIES,
    FIELD,
    QUEUES,
    Generator,
    Operation,
    Score,
)

CODES = set(
    "NOJOB NOSCHEDULE NOWORKER LOCKLOST STATE DEPENDENTS CYCLE STALE BADARG TOOBIG".split()
)
DAY = 86400
CHECKED = 10  # operations between two checks of the invariants
MOST_REPLAYS = 150
LEFT_OVER = re.compile(
    r"ql:(limit:.*:starts|meta|canceled|(canceled|canceled_history|s|m|result|reply|once|offspring|worker|orders|detached|wake|timer|awaiting|ended|produced|workflow):.*"
    r"|wake|samples|ticker|entity_types)"
)


def timeless(reply: object) -> object:
    """Return a reply without the seconds for which results are kept yet.

    What only reads is asked again, and they are fewer then.
    """
    if isinstance(reply, str):
        return re.sub(r'"returned":-?[\d.]+', '"returned":0', reply)
    return reply


class Violation(Exception):
    """An operation after which something was wrong."""


class RandomRun:
    """One run on an empty server: reproducible from the seed of its generator."""

    def __init__(self, core: Core, generator: Generator) -> None:
        self.keyed = Keyed(core)
        self.core = core
        self.server = core.server
        self.generator = generator
        self.made: list[Operation] = []
        self.last_token = 0

    def run(self, count: int) -> None:
        """Make `count` operations, then drain; a failure tells how to repeat it."""
        self.server.flushall()
        try:
            for number in range(count):
                operation = self.generator.draw(self.running())
                self.made.append(operation)
                self.perform(operation, curious=number % 20 == 0)
                self.check_token()
                if number % CHECKED == 0 or number == count - 1:
                    self.check_invariants()
        except Violation as violation:
            text = str(violation)
            raise AssertionError(f"{text}\n{self.story(text)}") from None
        self.drain()

    def running(self) -> list[str]:
        """Return the jids that hold a lock, in an order that depends on nothing else."""
        pipe = self.server.pipeline(transaction=False)
        for queue in [*QUEUES, "e"]:
            pipe.zrange(f"ql:q:{queue}-locks", 0, -1)
        return sorted(jid for jids in pipe.execute() for jid in jids)

    def resolve(self, part: object) -> object:
        """Put what it stands for in the place of a name."""
        if isinstance(part, Score):
            return self.server.zscore("ql:schedules", part.id) or 0
        field = FIELD.get(type(part))  # type: ignore[call-overload]
        if field is None:
            return part
        return self.server.hget(f"ql:j:{part.jid}", field) or ""  # type: ignore[attr-defined]

    def perform(self, operation: Operation, *, curious: bool = False) -> None:
        """Make one operation; sometimes look whether a refusal has changed something."""
        command, args = operation.command, [self.resolve(p) for p in operation.args]
        before = digest(self.server) if curious else ""
        try:
            reply = self.call(operation, args)
        except redis.ResponseError as error:
            self.judge(operation, str(error))
            if curious and digest(self.server) != before:
                self.refuse_again(operation, args)
            return
        if operation.request and command not in READS:
            self.repeat(operation, args, reply)

    def call(self, operation: Operation, args: list[object]) -> object:
        """Make the call of an operation."""
        command, now = operation.command, operation.now
        if operation.keyed:
            return self.core.ours(command, *args, now=now, request=operation.request)
        return self.core.old(command, now, *args)

    def refuse_again(self, operation: Operation, args: list[object]) -> None:
        """Make a refused call again: it must not change anything.

        Some keys end by themselves after some seconds, perhaps just when it was made.
        """
        now = snapshot(self.server)
        try:
            self.call(operation, args)
        except redis.ResponseError as error:
            if changed := difference(now, snapshot(self.server)):
                raise Violation(
                    f"a refused call has changed something: {changed}: {error}"
                ) from None
            return
        raise Violation("a call was refused, and then was not")

    def judge(self, operation: Operation, text: str) -> None:
        """Only errors that are meant may come."""
        if operation.keyed:
            fine = text.split(" ", 1)[0] in CODES and "user_" not in text
        else:
            fine = bool(re.search(r"user_\w+:\d+: \w", text))
        if not fine or "attempt to" in text:
            raise Violation(f"no error for people: {text}")

    def repeat(self, operation: Operation, args: list[object], reply: object) -> None:
        """Send a request again: the same reply, and no effect."""
        before = digest(self.server)
        again = self.core.ours(
            operation.command, *args, now=operation.now + 1, request=operation.request
        )
        if timeless(again) != timeless(reply):
            raise Violation(f"repeated, the reply was {again!r} instead of {reply!r}")
        if digest(self.server) == before:
            return
        # Some keys end by themselves after some seconds, perhaps just now: once more.
        now = snapshot(self.server)
        self.core.ours(
            operation.command, *args, now=operation.now + 2, request=operation.request
        )
        if changed := difference(now, snapshot(self.server)):
            raise Violation(f"a repeated request has changed something: {changed}")

    def check_token(self) -> None:
        """See that tokens never fall."""
        token = int(self.server.hget("ql:meta", "token") or 0)
        if token < self.last_token:
            raise Violation(f"the token fell from {self.last_token} to {token}")
        self.last_token = token

    def check_invariants(self) -> None:
        """Judge all keys, without the core's help."""
        if found := violations(self.server):
            raise Violation("invariants: " + "; ".join(found[:5]))

    # At the end: everything is brought to its end, and nothing may be left.

    def drain(self) -> None:
        """Finish, expire and forget everything; only what expires by itself may stay."""
        now = self.generator.now
        call = self.core.ours
        for option in json.loads(call("config.get", now=now)):
            call("config.unset", option, now=now)
        call("unpause", *QUEUES, now=now)
        # Periods pass: whose key another job has for one stays failed until then.
        for name in filter(self.is_period, self.server.scan_iter("ql:unique:*")):
            self.server.delete(name)
        for name in list(self.server.scan_iter("ql:schedule:*")):
            call("schedule.remove", name.removeprefix("ql:schedule:"), now=now)
        for name in list(self.server.scan_iter("ql:r:*")):
            call("unrecur", name.removeprefix("ql:r:"), now=now)
        for _ in range(500):
            now += 5000
            if not self.finish_some(now):
                break
        else:
            raise AssertionError(f"jobs are left: {self.unfinished()}")
        # A limit that held back one of the last jobs is looked at a minute later.
        self.finish_some(now + 60)
        self.forget(now + 60)
        self.check_invariants()
        left = [
            name
            for name in self.server.scan_iter()
            if not LEFT_OVER.fullmatch(name) and not self.is_period(name)
        ]
        assert left == [], f"left over: {left}"
        for_ever = [
            name
            for family in ("workflow", "awaiting", "ended", "canceled")
            for name in self.server.scan_iter(f"ql:{family}:*")
            if self.server.ttl(name) == -1
        ]
        assert for_ever == [], f"left over for ever: {for_ever}"

    def is_period(self, name: str) -> bool:
        """Say whether this is a unique key that was given for a period."""
        return name.startswith("ql:unique:") and int(self.server.ttl(name)) > 0

    def finish_some(self, now: float) -> bool:
        """Take the next jobs a step further; return whether any were left."""
        call = self.core.ours
        places = [*QUEUES, "e"]
        # (A beat cancels workflows that were never released.)
        call("beat", "drain", "", 0, now=now)
        jobs = self.keyed.settle([], 50, places, worker="drain", now=now).jobs
        ends = [settlement(job["jid"], job["token"], "complete") for job in jobs]
        assert self.keyed.settle(ends, now=now).refused == []
        for group in json.loads(call("failed", now=now)):
            call("unfail", "a", group, 1000, now=now)
        self.check_token()
        return bool(self.unfinished() or self.server.exists("ql:workflows"))

    def unfinished(self) -> list[tuple[str, str]]:
        """Return the jobs that are not complete: jid, state."""
        jobs = []
        for name in sorted(self.server.scan_iter("ql:j:*", count=1000)):
            if self.server.type(name) == "hash":
                state = self.server.hget(name, "state")
                if state != "complete":
                    jobs.append((name.removeprefix("ql:j:"), state))
        return jobs

    def forget(self, now: float) -> None:
        """Let all records expire, and forget the names of queues and workers."""
        call = self.core.ours
        call("config.set", "jobs-history", -1, now=now)
        for number in range(200):  # A completion forgets some 200 others.
            self.keyed.put(f"last-{number}", now, queue="a")
            [job] = self.keyed.take(1, queue="a", now=now)
            self.keyed.settle(
                [settlement(job["jid"], job["token"], "complete")], now=now
            )
            if self.server.zcard("ql:completed") == 0:
                break
        call("config.unset", "jobs-history", now=now)
        tracked = self.server.zrange("ql:tracked", 0, -1)
        for jid in tracked:
            self.keyed.put(jid, now, queue="a")
            call("track", "untrack", jid, now=now)
            call("cancel", jid, now=now)
        for queue in ("a", "e"):
            call("dead.delete", queue, *ENTITIES, now=now)
        call("queue.forget", *QUEUES, "e", now=now)
        for number in range(1, 10):  # Results, and lists of what was spawned, expire.
            call("queue.forget", *QUEUES, now=now + number * DAY)
        workers = self.server.zrange("ql:workers", 0, -1)
        if workers:
            call("worker.deregister", *workers, now=now)

    # After a failure: the shortest sequence that still shows it.

    def story(self, text: str) -> str:
        """Return the operations that lead to the failure, as few as can be found."""
        kind = text.split(":", 1)[0]
        made, replays, size = list(self.made), 0, max(len(self.made) // 2, 1)
        while size >= 1 and replays < MOST_REPLAYS:
            start = 0
            while start < len(made) - 1 and replays < MOST_REPLAYS:
                fewer = made[:start] + made[start + size :]
                replays += 1
                if fewer and self.still_fails(fewer, kind):
                    made = fewer
                else:
                    start += size
            size //= 2
        shown = "\n".join(f"  {operation}" for operation in made[-60:])
        return f"{len(made)} of {len(self.made)} operations are enough:\n{shown}"

    def still_fails(self, made: Sequence[Operation], kind: str) -> bool:
        """Make these operations anew, and say whether the same kind of failure comes."""
        self.server.flushall()
        self.last_token = 0
        try:
            for operation in made[:-1]:
                try:
                    self.perform(operation)
                except Violation as early:
                    return str(early).split(":", 1)[0] == kind
            self.perform(made[-1], curious=True)
            self.check_token()
            self.check_invariants()
        except Violation as violation:
            return str(violation).split(":", 1)[0] == kind
        return False
