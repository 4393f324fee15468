"""The setting QLESS as typed values: read when first needed, again when it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_qless import rules
from django_qless.core.script import Engine
from django_qless.servers import in_tests

DEFAULT_ALIAS = "default"


@dataclass(frozen=True, slots=True)
class Alias:
    """What QLESS says of one alias, in order."""

    name: str
    location: str | None = None
    cache: str | None = None
    db: int | None = None
    embedded: Path | None = None
    implied: bool = False
    """Whether it is embedded because nothing at all was said."""
    throwaway: int | None = None
    """Its database on the server of a process of tests, if it is there."""
    prefix: str = "ql:"
    options: Mapping[str, Any] = field(default_factory=dict)
    engine: Engine = "auto"
    project: str = ""
    """The name of this project beside others in the namespace; "": see `declared.py`."""
    patience: float | None = None
    """Seconds for which calls are tried again; None: the client's own."""
    worker_patience: float | None = None
    """The same in the processes of a worker."""
    queues: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    middleware: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    """Dotted names of what takes something along with each job, see `puts/carriers.py`."""
    limits: Mapping[str, tuple[float | None, float | None]] = field(
        default_factory=dict
    )
    """Soft and hard timeout by queue, for jobs that say nothing themselves."""

    @property
    def declared(self) -> dict[str, str]:
        """The options of the Lua core that QUEUES and CONFIG declare, as it has them."""
        declared = {name: str(value) for name, value in self.config.items()}
        for queue, options in self.queues.items():
            for name in ("heartbeat", "max_concurrency", "weight"):
                if name in options:
                    declared[f"{queue}-{name.replace('_', '-')}"] = str(options[name])
        return declared


def names() -> list[str]:
    """Return the names of all aliases."""
    return list(written())


def written() -> Mapping[str, Mapping[str, Any]]:
    """Return QLESS as the project wrote it; without one there is an empty default."""
    value = getattr(settings, "QLESS", None)
    if value is None:
        return {DEFAULT_ALIAS: {}}
    for problem in rules.whole_setting(value):
        raise ImproperlyConfigured(f"{problem.text} {problem.hint}")
    return value  # type: ignore[no-any-return]


def alias(name: str = DEFAULT_ALIAS) -> Alias:
    """Return the settings of one alias.

    Raises ImproperlyConfigured if something is wrong with them, or if there is no such
    alias.
    """
    in_tests.begin()
    found = _read.get(name)
    if found is None:
        aliases = written()
        if name not in aliases:
            raise ImproperlyConfigured(
                f"QLESS has no alias {name!r}; there are: {', '.join(sorted(aliases))}."
            )
        for problem in rules.one_alias(name, aliases[name]):
            raise ImproperlyConfigured(f"{problem.text} {problem.hint}")
        found = _read[name] = _parsed(name, aliases[name])
    return found


def embedded_folder(value: bool | str | Path | None) -> Path | None:
    """Return the folder that EMBEDDED means, or None for no embedded server."""
    if value is True:
        base = getattr(settings, "BASE_DIR", None)
        return Path(base) / ".qless" if base else None
    return Path(value) if value else None


def on_change(function: Callable[[], None]) -> None:
    """Call this function whenever QLESS, or what it rests on, changes."""
    _forgetters.append(function)


def _parsed(name: str, given: Mapping[str, Any]) -> Alias:
    options, throwaway = given, None
    if in_tests.is_testing():
        options, is_thrown_away = in_tests.options_of(given)
        throwaway = in_tests.database_of(name) if is_thrown_away else None
    implied = not any(options.get(way) for way in rules.WAYS)
    return Alias(
        name=name,
        location=options.get("LOCATION"),
        cache=options.get("CACHE"),
        db=options.get("DB"),
        embedded=embedded_folder(implied or options.get("EMBEDDED")),
        implied=implied,
        throwaway=throwaway,
        prefix=options.get("PREFIX", "ql:"),
        options=options.get("OPTIONS", {}),
        engine=options.get("ENGINE", "auto"),
        project=options.get("PROJECT", ""),
        patience=options.get("PATIENCE"),
        worker_patience=options.get("WORKER_PATIENCE"),
        queues=options.get("QUEUES", {}),
        config=options.get("CONFIG", {}),
        middleware=tuple(options.get("MIDDLEWARE", ())),
        context=tuple(options.get("CONTEXT", ())),
        limits={
            queue: (given.get("timeout"), given.get("hard_timeout"))
            for queue, given in options.get("QUEUES", {}).items()
            if "timeout" in given or "hard_timeout" in given
        },
    )


def forget() -> None:
    """Read QLESS anew when it is needed next."""
    _read.clear()
    for each in _forgetters:
        each()


def _on_change(*, setting: str, **kwargs: Any) -> None:
    if setting in ("QLESS", "CACHES", "DEBUG", "BASE_DIR"):
        forget()


_read: dict[str, Alias] = {}
_forgetters: list[Callable[[], None]] = []
setting_changed.connect(_on_change, dispatch_uid="django_qless.conf")
