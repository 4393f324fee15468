"""Makes a call right behind another one, and as the first one of a library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import redis

from tests import drawing
from tests.core.against.builds import CLOCK
from tests.core.against.rules import LATER
from tests.core.against.side import END, Outcome, Side, Step, clock
from tests.core.caller import Core
from tests.core.keyed import Keyed
from tests.core.keyspace import difference, dumped, restore, snapshot
from tests.core.operations import Operation
from tests.core.test_bad_arguments import KEYED, OLD, scene, with_proof
from tests.real_servers import Server

#: Of calls that name their own time; what the namespace holds is a few seconds old.
NOW = 10.0
#: The server's clock: when it was asked last, and when it is asked: later, a little
#: earlier, so much earlier that it was set back, much later.
ASKED = 4000.0
TIMES = [4001.5, 3990.0, 20.25, 9000.0]
PREFIXES = ["ql:", "ql:", "ql:", "ql:", "{other}:"]

FAULTY = "faulty"


class Made(NamedTuple):
    """A call as it is made."""

    name: str
    operation: Operation
    star: bool
    prefix: str

    def with_args(self, args: tuple[Any, ...]) -> Made:
        return self._replace(operation=self.operation._replace(args=args))


def made(name: str, keyed: bool, call: tuple[Any, ...]) -> Made:
    """Return a call in one of the ways in which it can be made, drawn by its name."""
    star = keyed and drawing.draw(f"star {name}", 2) == 0
    now = TIMES[drawing.draw(f"time {name}", len(TIMES))] if star else NOW
    request = keyed and drawing.draw(f"request {name}", 3) == 0
    prefix = PREFIXES[drawing.draw(name, len(PREFIXES))] if keyed else "ql:"
    operation = Operation(keyed, now, call[0], call[1:], "client:5" if request else "")
    return Made(name, operation, star, prefix)


def all_calls() -> Iterator[Made]:
    """Yield a good call of each command with each of its options, and bad ones."""
    for number, call in enumerate([*KEYED, ("nosuch",)]):
        yield made(f"{call[0]} {number}", True, call)
    for number, call in enumerate([*KEYED, ("nosuch",)]):
        if call[0] in OLD or call[0] == "nosuch":
            by_name = with_proof(call, "w")
            yield made(f"{call[0]} without KEYS {number}", False, by_name)


CALLS = {call.name: call for call in all_calls()}


class Fault(NamedTuple):
    """What goes wrong with a call, and at what."""

    kind: str
    at: str = ""


#: A namespace that nothing has been put into.
EMPTY: dict[str, str] = {}
OTHERS = 3


def change(core: Core, token: str) -> None:
    """Make the scene another one: what is known of it is wrong from now on."""
    core.ours("complete", "run", token, "queue", "{}", "result", "[1]", now=5)
    core.ours("cancel", "f1", "f2", now=5)
    core.ours("cancel", "dependent", now=5)
    core.ours("tag", "add", "waiting", "t", now=5)
    core.ours("track", "track", "waiting", now=5)
    core.ours("unrecur", "cron", now=5)
    core.ours("schedule.remove", "minutely", now=5)
    core.ours("pause", "side", now=5)
    core.ours("put", "w", "queue", "run", "klass", "{}", 0, "unique", "key", now=5)
    core.ours("put", "w", "queue", "n1", "klass", "{}", 0, "depends", '["run"]', now=5)
    for option, value in (
        ("heartbeat", 5),
        ("max-job-history", 2),
        ("jobs-history", 9),
    ):
        core.ours("config.set", option, value, now=5)


class Leaks:
    """A library on a server whose keys are always the same before a call."""

    def __init__(self, server: Server, build: Path) -> None:
        self.side = Side(server, build)
        self.side.clear()
        self.client = self.side.client
        self.client.execute_command(
            "ACL", "SETUSER", FAULTY, "on", "nopass", "~*", "&*"
        )
        self.faulty = server.client(
            username=FAULTY, password="any", decode_responses=True,
            encoding_errors="surrogateescape",
        )  # fmt: skip
        core = Core(self.client, self.side.library)
        self.token = scene(Keyed(core))
        self.client.set(CLOCK, clock(ASKED))
        core.ours("config.set", "heartbeat", 50)
        self.dumps = dumped(self.client)
        self.keys = snapshot(self.client)
        change(core, self.token)
        self.others = [self.dumps, dumped(self.client), EMPTY]
        self.firsts: dict[str, Outcome] = {}
        self.known: dict[str, list[Fault]] = {}

    def close(self) -> None:
        self.faulty.close()
        self.side.close()

    # The call that is looked at.

    def first(self, call: Made) -> Outcome:
        """Return what comes of a call as the first one of its library."""
        if call.name not in self.firsts:
            self.side.reload()
            self.firsts[call.name] = self.outcome(call)
        return self.firsts[call.name]

    def outcome(self, call: Made) -> Outcome:
        """Return what comes of a call on the keys that there always are."""
        restore(self.client, self.dumps)
        self.client.publish(END, "")
        self.side.heard()
        self.side.prefix = call.prefix
        return self.side.perform(Step(self.proven(call).operation, star=call.star))

    def proven(self, call: Made) -> Made:
        """Return a call with the token of the running job."""
        return call.with_args(with_proof(call.operation.args, self.token))

    # The call before it.

    def faults(self, call: Made) -> list[Fault]:
        """Return all that can go wrong with a call, and that nothing does."""
        if call.name not in self.known:
            self.prepare(call, self.dumps)
            self.client.config_resetstat()
            self.send(self.client, call)
            used = self.client.info("commandstats")
            changed = difference(self.keys, snapshot(self.client))
            args = range(len(call.operation.args))
            self.known[call.name] = [
                *(Fault("none"), Fault("full"), *(Fault("odd", str(n)) for n in args)),
                *(Fault("cut", str(n)) for n in args),
                *(Fault("forbidden", name) for name in commands(used)),
                *(Fault("taken", name) for name in sorted(changed) if name != CLOCK),
            ]
        return self.known[call.name]

    def make(self, call: Made, fault: Fault, other: int) -> None:
        """Make a call with which something goes wrong; its reply does not matter.

        It sees the same keys as the call behind it, others, or none.
        """
        self.prepare(call, self.others[other])
        args, at = call.operation.args, fault.at
        if fault.kind == "cut":
            call = call.with_args(args[: int(at)])
        elif fault.kind == "odd":
            call = call.with_args((*args[: int(at)], "\0nosuch", *args[int(at) + 1 :]))
        with FAULTS.get(fault.kind, none)(self.client, at):
            self.send(self.faulty if fault.kind == "forbidden" else self.client, call)

    def prepare(self, call: Made, dumps: dict[str, str]) -> None:
        """Have these keys, at the call's time."""
        restore(self.client, dumps)
        self.client.set(CLOCK, clock(call.operation.now if call.star else ASKED))

    def send(self, client: redis.Redis, call: Made) -> None:
        """Send a call."""
        operation = self.proven(call).operation
        core = Core(client, self.side.library, call.prefix)
        with suppress(redis.ResponseError):
            if operation.keyed:
                now = "*" if call.star else operation.now
                request = operation.request and "client:4"
                core.ours(operation.command, *operation.args, now=now, request=request)
            else:
                core.old(operation.command, operation.now, *operation.args)


@contextmanager
def none(client: redis.Redis, _: str) -> Iterator[None]:
    yield


@contextmanager
def full(client: redis.Redis, _: str) -> Iterator[None]:
    """The server is full meanwhile."""
    client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        client.config_set("maxmemory", 0)


@contextmanager
def forbidden(client: redis.Redis, command: str) -> Iterator[None]:
    """The caller may not do one thing that the call does."""
    client.execute_command("ACL", "SETUSER", FAULTY, "+@all", f"-{command}")
    yield


@contextmanager
def taken(client: redis.Redis, name: str) -> Iterator[None]:
    """A key that the call writes is of another type."""
    kind = client.type(name)
    client.delete(name)
    if kind == "string":
        client.rpush(name, "a stranger's")
    else:
        client.set(name, "a stranger's")
    yield


FAULTS: dict[str, Callable[[redis.Redis, str], Any]] = {
    "full": full,
    "forbidden": forbidden,
    "taken": taken,
}

#: What is not asked by the core.
OWN = {"fcall", "info", "config|resetstat"}


def commands(statistics: dict[str, Any]) -> list[str]:
    """Return the server's commands that a call has used."""
    used = sorted(name.removeprefix("cmdstat_") for name in statistics)
    return [name for name in used if name not in OWN]


def differences(first: Outcome, then: Outcome) -> list[str]:
    """Say in what a call differs from itself as the first one."""
    found = []
    for part in ("reply", "events", "digest"):
        one, other = getattr(first, part), getattr(then, part)
        if type(one) is not type(other) or str(one) != str(other):
            found.append(f"{part}: {one} was to come, and not {other}")
    before, after = first.lifetimes, then.lifetimes
    if before.keys() != after.keys() or any(
        abs(before[name] - after[name]) > LATER for name in before
    ):
        found.append(f"lifetimes: {before} were to come, and not {after}")
    return found
