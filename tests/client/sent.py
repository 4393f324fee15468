"""What each command of the client sends: with what it needs, and with each other argument.

python -m tests.client.sent      writes sent.txt again
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from django_qless.core import (
    BadArgument,
    Client,
    Job,
    Put,
    Queue,
    RecurringJob,
    Settlement,
    Tick,
)
from django_qless.core.commands.entities import Payload
from django_qless.core.protocol import Argument, Packed
from django_qless.core.request import Command, CommandSequence, command

SENT = Path(__file__).with_name("sent.txt")

PUTS = [
    Put("i1", "q", "k", "{}"),
    Put(
        "i2",
        "q",
        "k",
        "[2]",
        delay=7,
        priority=3,
        retries=4,
        tags=["t"],
        depends=["i1"],
    ),
]

#: A value for each parameter, by its name; by command and name where that one does not suit.
SAMPLES: dict[str, Any] = {
    "absent": True,
    "met": ["j2"],
    "batch": 3,
    "rate": "100/m",
    "entities": ["o1", "o2"],
    "entity": "o1",
    "known": ["old.name"],
    "payloads": [
        Payload("o1", '{"v":1}', "[5]", 2, 1700000000),
        Payload("o2", '{"v":1}', "1"),
    ],
    "which": "fresh",
    "at": 1700000000,
    "backlog": 8,
    "by": "ann",
    "conflict": "replace",
    "context": '{"a":1}',
    "count": 12,
    "cron": "0 6 * * *",
    "cursor": "c",
    "data": "[5]",
    "date": 1700000000,
    "debounce": 6,
    "formerly": ["old.s"],
    "delay": 9.5,
    "depends": ["d1", "d2"],
    "details": '{"d":1}',
    "every": 61,
    "exclude": ["x*"],
    "exhausted": True,
    "expires": 62,
    "expires_at": 1700000001,
    "first": 4,
    "edited": True,
    "fraction": 0.25,
    "group": "g",
    "held": 0.125,
    "history": 5,
    "id": "s",
    "ids": ["s1", "s2"],
    "info": '{"host":"h"}',
    "interval": 63,
    "items": PUTS,
    "jid": "j",
    "jids": ["j1", "j2"],
    "jobs": 21,
    "klass": "kind",
    "last": 14,
    "limit": 15,
    "links": 16,
    "message": "m",
    "meta": '{"m":1}',
    "missed": "all",
    "most": 17,
    "name": "n",
    "next": "next-queue",
    "offset": 18,
    "on_failure": "run",
    "only_if_empty": True,
    "option": "heartbeat",
    "order": "last",
    "owner": "o",
    "parts": [("waiting", "q", 0, 25)],
    "priority": 11,
    "queue": "q",
    "queues": ["q1", "q2"],
    "reason": "r",
    "result": '"done"',
    "result_ttl": 64,
    "retries": 7,
    "seconds": 65,
    "settlements": [
        Settlement("j1", "1", "complete"),
        Settlement("j2", "2", "retry", (5, "g", "m"), 0.5),
    ],
    "start": 19,
    "state": "scheduled",
    "step": 20,
    "tag": "t",
    "tags": ["t1", "t2"],
    "text": "words",
    "ticks": [
        Tick("s1", "5", 1700000000, 1700000030.5, 1700000060),
        Tick("s2", "new", next=1700000240),
        Tick("s3", "6", trouble="words"),
    ],
    "timezone": "Asia/Tokyo",
    "token": "99",
    "unique": "u",
    "unique_until": "start",
    "unique_aliases": ["u0"],
    "value": 67,
    "wait": 3,
    "weight": 2,
    "Client.search.data": ["a"],
    "worker": "w",
    "workers": ["w1", "w2"],
    "workflow": "flow",
}

#: What a command is given in place of the sample, or although it could do without.
ALSO: dict[str, dict[str, Any]] = {
    "Client.beat": {"held": [("j1", "1"), ("j2", "2", None), ("j3", "3", 0.5)]},
    "Client.order": {"order": "stop"},
    "Client.schedule_set": {"every": 60},
}

#: Further ways in which a command is called.
MORE: dict[str, list[dict[str, Any]]] = {
    "Client.put": [
        {"unique": "u", "unique_until": "start"},
        {"unique": "u", "unique_until": 30.5},
        {"unique": "u", "conflict": "replace"},
        {"unique": "u", "debounce": 6},
        {"unique": "u", "debounce": 6},
        {"delay": 0, "priority": 0, "retries": 0, "tags": []},
    ],
    "Client.complete": [
        {"next": "next-queue", "delay": 9, "depends": ["d"]},
        {"result": "null", "result_ttl": 0, "held": 0},
    ],
    "Client.retry": [{"delay": 1, "group": "g", "message": "m", "held": 0}],
    "Client.fail": [{"data": "[5]", "held": 0}],
    "Client.search": [
        {"queue": "q", "state": "failed", "data": ["a", "b"]},
        {"parts": [("group", "g", 1, 2), ("complete", "", 0, 3)]},
    ],
    "Client.schedule_set": [
        {"every": None, "cron": "0 6 * * *", "timezone": "Asia/Tokyo"},
        {"offset": 0, "retries": 0, "tags": [], "context": ""},
    ],
    "Client.schedule_update": [{"context": "", "unique": "", "expires": 0, "name": ""}],
    "Client.pause": [{"queues": "q"}],
}


class Offline(Client):
    """A client that is asked nothing."""

    def __init__(self) -> None:
        super().__init__(redis.Redis())


def owners(client: Client) -> dict[str, Any]:
    """Return an instance of each class that has commands, by the name of its class."""
    values = {
        "client": client,
        **{name: SAMPLES[name] for name in ("jid", "klass", "queue", "data", "worker")},
        "priority": 1,
        "retries": 5,
        "interval": 60,
        "count": 0,
        "backlog": 0,
        "tags": (),
        "token": "99",
        "state": "running",
    }
    made: dict[str, Any] = {"Client": client, "Queue": Queue(client, "q")}
    kinds: tuple[Any, ...] = (Job, RecurringJob)
    for kind in kinds:
        parameters = inspect.signature(kind).parameters.values()
        made[kind.__name__] = kind(
            **{each.name: values.get(each.name) for each in parameters}
        )
    return made


def commands(owner: object) -> dict[str, command[Any, Any]]:
    """Return the commands of an object by name."""
    found = {name: inspect.getattr_static(owner, name) for name in dir(type(owner))}
    return {name: each for name, each in found.items() if isinstance(each, command)}


def plain(argument: Argument) -> Iterator[Argument]:
    """Return an argument, or those that are packed in it."""
    if isinstance(argument, Packed):
        # A length, and what is so long, in turn.
        for text in argument.data.split(b"\r\n")[1::2]:
            yield text.decode()
    else:
        yield argument


def shown(request: object) -> str:
    """Return what a request sends as a text."""
    if isinstance(request, CommandSequence):
        return " | ".join(map(shown, request.parts)) + f" (sizes {request.sizes})"
    assert isinstance(request, Command)
    args = (repr(each) for argument in request.args for each in plain(argument))
    return " ".join([request.kind, request.name, *args])


def lines_of(title: str, owner: object, made: command[Any, Any]) -> Iterator[str]:
    """Return a line for each way in which one command is called."""
    parameters = list(inspect.signature(made.build).parameters.values())[1:]
    also = ALSO.get(title, {})
    needed: dict[str, Any] = {}
    extra: tuple[Any, ...] = ()
    for each in parameters:
        if each.kind is each.VAR_POSITIONAL:
            extra = tuple(SAMPLES[each.name])
        elif each.default is each.empty:
            needed[each.name] = also.get(each.name, SAMPLES[each.name])
    first = {name: value for name, value in also.items() if name not in needed}

    def line(**given: Any) -> str:
        # What is needed comes by position, before what there may be any number of.
        words = ", ".join(f"{name}={value!r}" for name, value in given.items())
        by_place = [given.pop(name, value) for name, value in needed.items()]
        try:
            sent = shown(made.build(owner, *by_place, *extra, **{**first, **given}))
        except BadArgument as error:
            sent = f"refused: {error}"
        return f"{title}({words}): {sent}"

    yield line()
    for each in parameters:
        if each.kind is not each.VAR_POSITIONAL and each.name not in {*needed, *first}:
            sample = SAMPLES.get(f"{title}.{each.name}", SAMPLES[each.name])
            yield line(**{each.name: sample})
    for more in MORE.get(title, ()):
        yield line(**more)


def all_lines() -> Iterator[str]:
    """Return the lines of all commands."""
    for kind, owner in owners(Offline()).items():
        for name, each in sorted(commands(owner).items()):
            yield from lines_of(f"{kind}.{name}", owner, each)


if __name__ == "__main__":
    SENT.write_text("\n".join(all_lines()) + "\n")
