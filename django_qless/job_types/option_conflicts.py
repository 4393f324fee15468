"""Options of `@job` that contradict each other, as sentences without a full stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_qless.job_types.options import Options


def contradictions(options: Options, given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what contradicts itself in these options; a call or `@job` gave some."""
    yield from _entities(options)
    yield from _times(options)
    yield from _uniqueness(options, given)
    yield from _exceptions(options)


def _entities(options: Options) -> Iterator[str]:
    if not options.entity:
        if options.batch_size != 1:
            yield "batch_size needs entity=True"
        return
    for name, value, remedy in (
        # (Which is unique as well.)
        ("debounce", options.debounce, "push with run_at="),
        ("unique", options.unique, "an entity is queued once anyway"),
        ("delay", options.delay, "push with run_at="),
        ("run_at", options.run_at, "push with run_at="),
        ("jid", options.jid, "the entity is its id"),
        ("app_data", options.app_data, "put it into the payload"),
        ("expires", options.expires, "payloads wait until they are processed"),
        ("after", options.after or options.after_names,
         "push when the other job is done"),
        ("detached", options.detached, "a run has several entities, each with its lock"),
        ("concurrency_key", options.concurrency_key, "the entity is the key"),
        ("fair_by", options.fair_by, "the entity due longest comes first"),
    ):  # fmt: skip
        if value:
            yield f"{name} cannot go with entity=True: {remedy}"


def _times(options: Options) -> Iterator[str]:
    soft, hard = options.timeout, options.hard_timeout
    if soft is not None and hard is not None and soft > hard:
        yield (
            f"timeout={soft:g} exceeds hard_timeout={hard:g}: the job's process would "
            "be killed before the job could react"
        )
    expires, begins = options.expires, options.debounce or options.delay
    if isinstance(expires, datetime):
        if options.run_at is not None and expires <= options.run_at:
            yield (
                f"expires={expires} comes before run_at={options.run_at}, so the job "
                "would never be started: let it expire later"
            )
    elif expires is not None and expires <= begins:
        word = "debounce" if options.debounce else "delay"
        yield (
            f"expires={expires:g} comes before {word}={begins:g} has passed, so the job "
            "would never be started: let it expire later"
        )


def _uniqueness(options: Options, given: Mapping[str, Any]) -> Iterator[str]:
    debounce = options.debounce
    if options.unique is None:
        for name in ("unique_for", "on_conflict"):
            if name in given:
                yield (
                    f"{name}={given[name]!r} needs a unique key: add "
                    "unique=True, or a key"
                )
    if debounce is None:
        return
    if options.unique is None:
        yield (
            f"debounce={debounce:g} needs a unique key: omit unique for jobs with "
            "the same arguments, or give a key"
        )
    if options.delay or options.run_at is not None:
        word = "delay" if options.delay else "run_at"
        yield (
            f"debounce={debounce:g} and {word} both set the start of the job: keep "
            "one of them"
        )
    if not isinstance(options.unique_for, str):
        yield (
            f"unique_for={options.unique_for:g} contradicts debounce, whose jobs are "
            'unique while they wait: write unique_for="waiting" or "running"'
        )


def _exceptions(options: Options) -> Iterator[str]:
    for wanted in options.retry_on:
        for final in options.fail_on:
            children = isinstance(wanted, type) and isinstance(final, type)
            if wanted == final or (children and issubclass(wanted, final)):  # type: ignore[arg-type]
                yield (
                    f"retry_on names {_class_name(wanted)}, which fail_on has fail at "
                    f"once, as {_class_name(final)}: keep one of them"
                )


def _class_name(exception: type[BaseException] | str) -> str:
    return exception if isinstance(exception, str) else exception.__qualname__
