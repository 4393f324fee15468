"""The keys of the setting QLESS: one table, from which reading and checking derive.

A key is a field of `Alias` with its check (`setting_checks.py`), the number of its system
check and a hint.
`validation.py` applies the checks.
"""

# ruff: noqa: RUF009  (`key` returns a field)
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings

from django_qless.conf import connection_checks
from django_qless.conf import setting_checks as checks
from django_qless.conf.setting_checks import Check, must_be

#: The keys that name a server; one of them at most is given.
CONNECTION_KEYS = ("LOCATION", "CACHE", "EMBEDDED", "SENTINELS", "CLUSTER")

#: The keys that name a server, or say how to connect to it.
SERVER_KEYS = (
    *CONNECTION_KEYS,
    *("DB", "OPTIONS", "SERVICE_NAME", "SENTINEL_OPTIONS"),
    "REPLICAS",
)

REMEDY = 'Set QLESS = {"default": {"LOCATION": "redis://localhost:6379/0"}}.'


class Key(NamedTuple):
    """A key of QLESS: how its value is checked and read."""

    name: str
    check: Check
    number: str
    hint: str
    read: Callable[[Any], Any] | None = None


def key(
    name: str,
    default: Any,
    check: Check,
    number: str,
    hint: str,
    read: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the field of a key. `hint` is the remedy unless its check gives one."""
    row = Key(name, check, number, hint, read)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={"key": row})
    return field(default=default, metadata={"key": row})


def embedded_directory(value: bool | str | Path | None) -> Path | None:
    """Return the folder that EMBEDDED means, or None for no embedded server."""
    if value is True:
        base = getattr(settings, "BASE_DIR", None)
        return Path(base) / ".qless" if base else None
    return Path(value) if value else None


@dataclass(frozen=True, slots=True)
class Alias:
    """The settings of one alias of QLESS."""

    name: str
    implied: bool
    """True if it is embedded because no server is named."""
    throwaway: int | None = None
    """Its database on the server of a process of tests, if it is there."""
    in_tests: bool = False
    """True if its server is one of tests."""
    location: str | None = key(
        "LOCATION",
        None,
        connection_checks.location,
        "E005",
        "Write redis://host:6379/0, rediss://host:6379/0 or unix:///path?db=0.",
    )
    """The URL of the server: redis://, rediss:// (TLS) or unix://."""
    cache: str | None = key("CACHE", None, connection_checks.cache, "E006", "")
    """A cache of CACHES in Redis, whose server and connection options are used."""
    db: int | None = key(
        "DB",
        None,
        must_be(
            "a number from 0",
            lambda value: type(value) is int and value >= 0,
            optional=True,
        ),
        "E006",
        "Write DB: 1.",
    )
    """The number of the database on the server of CACHE or SENTINELS. Default: that of the
    cache; 0 with SENTINELS. With LOCATION it is part of the URL."""
    embedded: Path | None = key(
        "EMBEDDED",
        None,
        connection_checks.embedded,
        "E007",
        "True keeps the data in BASE_DIR/.qless.",
        embedded_directory,
    )
    """A private server for development: True (its data are in BASE_DIR/.qless), or the folder
    of its data. It is the default with DEBUG if the alias names no server."""
    sentinels: tuple[tuple[str, int], ...] = key(
        "SENTINELS",
        (),
        connection_checks.sentinels,
        "E042",
        'For example [("10.0.0.1", 26379), ("10.0.0.2", 26379), ("10.0.0.3", 26379)].',
        tuple,
    )
    """Addresses of Sentinels, as pairs of host and port. They say which server is the primary;
    SERVICE_NAME is needed, too."""
    service_name: str = key(
        "SERVICE_NAME",
        "",
        checks.text(100, "characters", len),
        "E042",
        "It is the name that the Sentinels watch the server under.",
    )
    """The name under which the Sentinels watch the server, such as "mymaster"."""
    sentinel_options: Mapping[str, Any] = key(
        "SENTINEL_OPTIONS",
        {},
        connection_checks.sentinel_options,
        "E042",
        "They go to redis-py.",
    )
    """Options of redis-py's connections to the Sentinels: credentials, timeouts, TLS."""
    cluster: tuple[str, ...] = key(
        "CLUSTER",
        (),
        connection_checks.cluster,
        "E045",
        'For example ["redis://10.0.0.1:7000", "redis://10.0.0.2:7000"].',
        tuple,
    )
    """URLs of some nodes of a Redis or Valkey Cluster; the others are found through them. PREFIX
    needs a hash tag, such as "{ql}:"."""
    prefix: str = key(
        "PREFIX",
        "ql:",
        checks.text(100, "characters", len),
        "E008",
        'The usual one is "ql:".',
    )
    """The text that all keys begin with. Aliases on one database need different ones.
    Default: `"ql:"`"""
    options: Mapping[str, Any] = key(
        "OPTIONS", {}, connection_checks.options, "E010", "Its values go to redis-py."
    )
    """Options of redis-py's connections and pools: timeouts, TLS, credentials. They are passed
    on as they are; those that would have no effect are refused."""
    project: str = key(
        "PROJECT",
        "",
        checks.text(100, "bytes", lambda text: len(text.encode())),
        "E034",
        "It tells this project from others with recurring jobs in the namespace.",
    )
    """A name for this code where several projects share an alias's keys: each adds and removes
    only the recurring jobs of its own code. Default: the package of ROOT_URLCONF."""
    patience: float | None = key(
        "PATIENCE",
        None,
        checks.within_an_hour,
        "E033",
        "Calls are tried again for that long while the server cannot be reached.",
    )
    """Seconds for which a call is tried again while the server cannot be reached: 0 to 3600.
    Default: 10"""
    replicas: int = key(
        "REPLICAS",
        0,
        must_be(
            "a number of replicas from 0 to 100",
            lambda value: type(value) is int and 0 <= value <= 100,
        ),
        "E043",
        "That many replicas have a job before enqueueing it returns.",
    )
    """Replicas that must have a job before enqueueing it returns; NotReplicated is raised if
    they do not have it within 0.2 s. Default: 0"""
    queues: Mapping[str, Mapping[str, Any]] = key(
        "QUEUES",
        {},
        checks.queues,
        "E011",
        'For example {"mail": {"max_concurrency": 4}}.',
    )
    """A dict from the names of queues to dicts of their options: see below."""
    config: Mapping[str, Any] = key(
        "CONFIG", {}, checks.config, "E012", 'For example {"jobs-history": 86400}.'
    )
    """A dict of options of the core: see below."""
    middleware: tuple[str, ...] = key(
        "MIDDLEWARE",
        (),
        checks.dotted_names,
        "E013",
        'A list of dotted names: ["shop.middleware.trace"].',
        tuple,
    )
    """Dotted names of middleware factories whose calls surround each run of a job, as Django's
    surround a request. The first is the outermost."""
    encryption_keys: tuple[str, ...] = key(
        "ENCRYPTION_KEYS",
        (),
        checks.encryption_keys,
        "E052",
        "Make one with cryptography.fernet.Fernet.generate_key().",
        tuple,
    )
    """Fernet keys. The first encrypts data, results and contexts of all jobs of the alias; each
    decrypts. Needs the extra `encryption`."""
    compression: str | None = key(
        "COMPRESSION",
        None,
        checks.compression,
        "E054",
        'For example "zlib".',
    )
    """Compresses long data and results: "zlib" or "zstd" (built into Python 3.14; before, it
    needs the extra `zstd`). Default: None, no compression"""
    propagators: tuple[str, ...] = key(
        "CONTEXT",
        (),
        checks.dotted_names,
        "E025",
        'A list of dotted names of context propagators: ["shop.context.Tenant"].',
        tuple,
    )
    """Dotted names of context propagators, classes that capture something where a job is
    enqueued and restore it around its run. Language and time zone always travel."""
    on_commit: str | None = key(
        "ON_COMMIT",
        None,
        must_be('"outbox"', lambda value: value == "outbox", optional=True),
        "E062",
        'Without it jobs are enqueued right after the commit; see "on_commit" of @job.',
    )
    """"outbox": jobs that wait for a commit are written into the outbox, unless `on_commit` of
    the job says otherwise. Default: None, they are enqueued right after the commit"""
    on_outage: str = key(
        "ON_OUTAGE",
        "raise",
        must_be('"raise" or "buffer"', lambda value: value in ("raise", "buffer")),
        "E061",
        '"raise" raises when the server is away, "buffer" writes into the outbox.',
    )
    """What enqueueing does while the server is away: "raise" (the default), or "buffer" (it
    writes into the outbox)."""

    @property
    def declared_options(self) -> dict[str, str]:
        """The core's options that QUEUES and CONFIG declare, in the core's form."""
        declared = {name: str(value) for name, value in self.config.items()}
        for queue, options in self.queues.items():
            for name in checks.CORE_QUEUE_OPTIONS:
                if name in options:
                    declared[f"{queue}-{name.replace('_', '-')}"] = str(options[name])
        return declared

    def limits(self, queue: str) -> tuple[float | None, float | None]:
        """Return the soft and hard timeout of a queue's jobs that give none."""
        options = self.queues.get(queue, {})
        return options.get("timeout"), options.get("hard_timeout")

    def detached_limit(self, queue: str) -> int:
        """Return how many detached jobs of a queue may run at once on a host."""
        return int(self.queues.get(queue, {}).get(checks.DETACHED_LIMIT, 1))


#: The keys that are attributes of an Alias, by attribute.
ATTRIBUTES: dict[str, Key] = {
    each.name: each.metadata["key"] for each in fields(Alias) if each.metadata
}


def read_alias(name: str, options: Mapping[str, Any], **more: Any) -> Alias:
    """Return the settings of one alias, which have been validated."""
    values = {
        attribute: row.read(options[row.name]) if row.read else options[row.name]
        for attribute, row in ATTRIBUTES.items()
        if row.name in options
    }
    return Alias(name, **values, **more)
