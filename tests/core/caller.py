"""Calls the Lua core by hand, as a stranger would: no client library in between.

``Core.old`` speaks qless-core's protocol (no KEYS), ``Core.ours`` the calls with KEYS.
The time is always an argument, so that no test has to sleep.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.permissions import channels_and_keys

SOURCE = Path(__file__).parents[2] / "django_qless" / "core" / "qless.lua"

READS = frozenset(
    "get multiget peek queues queues.part jobs jobs.count stats workers failed length config.get recur.get "
    "result needs offspring results results.gone lag due survey minutes meta "
    "schedule.get schedule.list schedule.declared throughput failed.of "
    "stats.counters brief briefs search job.view failure.groups failure.group worker.views tag.counts "
    "schedules.of schedules.next schedules.in schedules.count tracked.jids detached.get "
    "workflow.get workflow.jobs limits entity.show entities.list entities.counts".split()
)
DRAINS = frozenset(
    "settle beat complete fail retry heartbeat release progress cancel "
    "worker.deregister log order schedule.pause schedule.remove detached.keep forget".split()
)
#: The classes of calls with KEYS.
KINDS = ("read", "write", "drain")
END_OF_LISTENING = "test:end"


def call_class(command: str, args: tuple[Any, ...]) -> str:
    """Return the class (read, write or drain) that a command with KEYS belongs to."""
    if command in READS or (command == "track" and not args):
        return "read"
    if command == "tag" and args[:1] in (("get",), ("top",)):
        return "read"
    drains = command in DRAINS or (command == "each" and args[:1] == ("cancel",))
    return "drain" if drains else "write"


def entity_jid(queue: str, entity: str) -> str:
    """Return the id of the job that carries an entity."""
    digest = hashlib.sha1(f"{queue}\0{entity}".encode(), usedforsecurity=False)
    return f"entity-{digest.hexdigest()}"


# How many arguments stand before the jobs, in commands that put some.
PUTS = {
    "put": 1,
    "requeue": 1,
    "put.many": 1,
    "spawn": 3,
    "put.once": 4,
    "workflow.put": 3,
}


def as_rows(command: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a put as the core wants them: shape, columns, values.

    Tests write a job as queue jid klass data delay (name value)..., those of a batch as
    jid queue klass data delay k (name value)*k. What is of neither form stays as it is.
    """
    if command not in PUTS:
        return args
    head, rest = args[: PUTS[command]], list(args[PUTS[command] :])
    if len(head) < PUTS[command]:
        return args
    jobs: list[dict[str, Any]] = []
    if command in ("put", "requeue"):
        names = ("queue", "jid", "klass", "data", "delay")
        if len(rest) < len(names) or len(rest) % 2 == 0:
            return args
        jobs.append(dict(zip(names, rest, strict=False)) | paired(rest[5:]))
        rest = []
    while rest:
        names = ("jid", "queue", "klass", "data", "delay")
        count = str(rest[5]) if len(rest) > 5 else ""
        if not count.isdigit() or len(rest) < 6 + 2 * int(count):
            return args
        end = 6 + 2 * int(count)
        jobs.append(dict(zip(names, rest, strict=False)) | paired(rest[6:end]))
        rest = rest[end:]
    # An empty value in a column says nothing: what is to be empty goes into the shape.
    empty = {name: "" for job in jobs for name in job if job[name] == ""}
    shape = {name: "" for name in empty if name not in REQUIRED}
    named = dict.fromkeys(name for job in jobs for name in job) or ["jid"]
    columns = [name for name in named if name not in shape]
    if not all(isinstance(name, str) for name in columns):
        return args
    values = [job.get(name, "") for job in jobs for name in columns]
    return (*head, json.dumps(shape), " ".join(columns), *values)


REQUIRED = ("jid", "queue", "klass", "data")


def paired(flat_pairs: list[Any]) -> dict[str, Any]:
    """Return names and values as a dict."""
    return dict(zip(flat_pairs[::2], flat_pairs[1::2], strict=True))


class Library:
    """The built Lua file: a library of functions, and the script of old clients."""

    def __init__(self, source: Path | None = None) -> None:
        self.body = (source or SOURCE).read_text(encoding="utf-8")
        self.name = "qless_" + hashlib.sha1(self.body.encode()).hexdigest()[:12]
        self.sha = hashlib.sha1(self.body.encode()).hexdigest()

    def load(self, server: redis.Redis) -> None:
        """Load the library and the script unless the server has them already."""
        if not server.script_exists(self.sha)[0]:
            assert server.script_load(self.body) == self.sha
        if not server.function_list(library=self.name):
            server.function_load(
                f"#!lua name={self.name}\n{self.body}\nQless.register('{self.name}')\n"
            )


class Core:
    """The Lua core of one namespace on one server.

    `server` may do anything; `users` are clients of those who make the calls, by role.
    """

    def __init__(
        self,
        server: redis.Redis,
        library: Library,
        prefix: str = "ql:",
        users: Mapping[str, redis.Redis] | None = None,
    ) -> None:
        self.server = server
        self.library = library
        self.prefix = prefix
        self.users = users or {}

    def with_prefix(self, prefix: str) -> Core:
        """Return a caller of another namespace on the same server."""
        for role in self.users:
            self.server.execute_command(
                "ACL", "SETUSER", role, *channels_and_keys(prefix)
            )
        return Core(self.server, self.library, prefix, self.users)

    def call(self, kind: str, keys: tuple[str, ...], *argv: Any) -> Any:
        """Send the keys and arguments as they are to the function of a class, or the script."""
        caller = self.users.get("worker", self.server)
        if kind == "old":
            return caller.evalsha(self.library.sha, len(keys), *keys, *argv)
        name = f"{self.library.name}_{kind}"
        return caller.fcall(name, len(keys), *keys, *argv)

    def old(self, command: str, now: Any, *args: Any) -> Any:
        """Call without KEYS: qless-core's protocol, the caller's clock."""
        return self.call("old", (), command, now, *args)

    def ours(self, command: str, *args: Any, now: Any = "*", request: str = "") -> Any:
        """Call with KEYS, in the command's class."""
        keys = (self.prefix + "!", self.prefix + "meta")
        kind, args = call_class(command, args), as_rows(command, args)
        return self.call(kind, keys, command, now, request, *args)

    def put(
        self,
        jid: str,
        now: float = 0,
        *,
        queue: str = "queue",
        worker: str = "worker",
        klass: str = "klass",
        data: str = "{}",
        delay: Any = 0,
        **pairs: Any,
    ) -> Any:
        """Put a job without KEYS; structured options are given as Python values."""
        return self.old(
            "put", now, worker, queue, jid, klass, data, delay, *flat(pairs)
        )

    def pop(
        self,
        now: float = 0,
        count: Any = 10,
        *,
        queue: str = "queue",
        worker: str = "worker",
    ) -> list[dict[str, Any]]:
        """Pop without KEYS and return the decoded jobs."""
        return listed(json.loads(self.old("pop", now, queue, worker, count)))

    def popped(self, now: float = 0, count: int = 10, **names: str) -> list[str]:
        """Pop without KEYS and return only the jids."""
        return [job["jid"] for job in self.pop(now, count, **names)]

    def complete(
        self,
        jid: str,
        now: float = 0,
        *,
        queue: str = "queue",
        worker: str = "worker",
        data: str = "{}",
        **pairs: Any,
    ) -> Any:
        """Complete a job without KEYS."""
        return self.old("complete", now, jid, worker, queue, data, *flat(pairs))

    def job(self, jid: str, now: float = 0) -> dict[str, Any]:
        """Return the decoded record of a job that must exist."""
        text = self.old("get", now, jid)
        assert text is not None, f"job {jid} does not exist"
        job: dict[str, Any] = json.loads(text)
        return job

    def state(self, jid: str) -> str:
        """Return a job's state word."""
        state: str = self.job(jid)["state"]
        return state

    def json(self, command: str, now: Any, *args: Any) -> Any:
        """Call without KEYS and decode the JSON reply."""
        return json.loads(self.old(command, now, *args))

    def error(self, command: str, now: Any, *args: Any) -> str:
        """Call without KEYS, expect an error, return its text."""
        try:
            reply = self.old(command, now, *args)
        except redis.ResponseError as error:
            return str(error)
        raise AssertionError(f"{command} {args} answered {reply!r} instead of an error")

    def refusal(
        self, command: str, *args: Any, now: Any = "*", request: str = ""
    ) -> str:
        """Call with KEYS, expect an error, return its text (the code comes first)."""
        try:
            reply = self.ours(command, *args, now=now, request=request)
        except redis.ResponseError as error:
            return str(error)
        raise AssertionError(f"{command} {args} answered {reply!r} instead of an error")

    @contextmanager
    def listening(self) -> Iterator[list[tuple[str, str]]]:
        """Collect what is published meanwhile, as (channel without prefix, text)."""
        heard: list[tuple[str, str]] = []
        with self.server.pubsub() as ear:
            ear.psubscribe("*")
            assert ear.get_message(timeout=5)["type"] == "psubscribe"
            yield heard
            # Messages arrive in order: after this one there are no more to wait for.
            self.server.publish(END_OF_LISTENING, "")
            while message := ear.get_message(timeout=5):
                if message["channel"] == END_OF_LISTENING:
                    return
                heard.append(
                    (message["channel"].removeprefix(self.prefix), message["data"])
                )
            raise AssertionError("the server did not deliver the last message")


def flat(pairs: dict[str, Any]) -> list[Any]:
    """Turn options into the protocol's flat names and values; lists become JSON."""
    arguments: list[Any] = []
    for name, value in pairs.items():
        structured = isinstance(value, (list, dict))
        arguments += [name, json.dumps(value) if structured else value]
    return arguments


def listed(reply: Any) -> list[Any]:
    """Turn the server's `{}` for an empty list into a list."""
    return [] if reply == {} else reply
