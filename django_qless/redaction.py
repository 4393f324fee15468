"""What people are shown of a job's arguments and result: sensitive values are hidden.

Sensitive is what the job's code declares now, and what the job itself says since it was
put (see `sensitive.py`), so nothing comes to light by a rename, or where the code is not
known. Of a class job that this project does not know, nothing tells: it is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from django_qless.discovery import failures
from django_qless.registry import Binding, registry
from django_qless.sensitive import RETURN, ROW, Sensitive, sensitive_of

HIDDEN = "[hidden]"


class Redacted(NamedTuple):
    """Data as people may see them."""

    text: str
    """JSON, with HIDDEN in place of what is sensitive."""
    hidden: tuple[str, ...]
    """What is hidden, by the names of parameters; empty if nothing is."""


class _Place(NamedTuple):
    """Where a value is: in which list or object, under which index or key, its name."""

    holder: Any
    key: Any
    name: str


class _Known(NamedTuple):
    """What the code says of a job; nothing if it is not known."""

    sensitive: Sensitive | None
    is_class: bool = False
    is_tick: bool = False
    """Whether it puts the jobs of a tick, whose data it has as an argument."""


def redact(
    klass: str, data: str, alias: str = "default", *, indent: int | None = 2
) -> Redacted:
    """Return the data of a job, or of a schedule, as people may see them.

    Pretty, unless `indent` is None; then data of which nothing is hidden stay as they
    are. Raises nothing: data that cannot be read are hidden whole if any of them might be
    sensitive.
    """
    known = _known(klass)
    try:
        value = json.loads(data)
        places = list(_places(value, known))
    except (ValueError, RecursionError):
        return _all_hidden() if known.sensitive else Redacted(_text(data), ())
    if any(place.holder is None for place in places):
        return _all_hidden()
    if not places and indent is None:
        return Redacted(_text(data), ())
    for place in places:
        place.holder[place.key] = HIDDEN
    names = dict.fromkeys(place.name for place in places)
    return Redacted(_written(value, indent), tuple(names))


def may_show_result(klass: str, data: str = "", alias: str = "default") -> bool:
    """Return whether people may see what a job has returned; `data` are the job's."""
    sensitive = _known(klass).sensitive
    if sensitive is not None and sensitive.result:
        return False
    if '"s":' not in data:
        return True
    mark = _mark_in(_read(data))
    return mark is not True and RETURN not in (mark or ())


def restored(klass: str, edited: str, data: str, alias: str = "default") -> str:
    """Return edited data with the values put back that are hidden from the editor.

    `edited` is what became of the text that `redact` made of `data`: where it still says
    HIDDEN in place of a hidden value, that value is taken from `data`. Raises ValueError
    if it is no JSON.
    """
    value, original = json.loads(edited), _read(data)
    if value == HIDDEN:
        return data
    for place in _places(original, _known(klass)):
        holder = _counterpart(value, original, place)
        if holder is not None and holder[place.key] == HIDDEN:
            holder[place.key] = place.holder[place.key]
    if isinstance(value, dict) and _mark_in(original) is not None:
        # Or else taking the mark away would bring to light what is hidden by it.
        value["s"] = original["s"]
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _places(value: Any, known: _Known) -> Iterator[_Place]:
    """Yield where sensitive values are; a holder that is None stands for the whole."""
    sensitive = known.sensitive
    if known.is_class:
        if sensitive is not None:
            yield from _members(value, sensitive)
        return
    members = value if isinstance(value, dict) else {}
    args, kwargs = members.get("args", []), members.get("kwargs", {})
    if not isinstance(value, dict) or not _is_call(args, kwargs):
        # It was put by hand, or by another program.
        if sensitive is not None or "s" in members:
            yield _Place(None, None, "data")
        return
    found: dict[int | str, str] = {}
    for place in _marked(_mark_in(value), args, kwargs):
        found[place] = f"argument {place + 1}" if isinstance(place, int) else place
    if sensitive is not None and not known.is_tick:
        found.update(sensitive.places(args, kwargs))
    elif sensitive is not None and args:
        # What a tick hands on: the whole data of the job that it puts.
        found[0] = "data"
    for where, name in found.items():
        if where == ROW and "row" in value:
            yield _Place(value, "row", name or "row")
        elif where != ROW:
            yield _Place(args if isinstance(where, int) else kwargs, where, name)


def _is_call(args: Any, kwargs: Any) -> bool:
    return isinstance(args, list) and isinstance(kwargs, dict)


def _members(value: Any, sensitive: Sensitive) -> Iterator[_Place]:
    """Yield what is sensitive in the data of a class job."""
    if sensitive.everything or not isinstance(value, dict):
        yield _Place(None, None, "data")
        return
    for name in sensitive.names & value.keys():
        yield _Place(value, name, name)


def _marked(mark: Any, args: list[Any], kwargs: dict[str, Any]) -> Iterator[int | str]:
    """Yield the places that a job's own mark names, as far as there are such."""
    if mark is True:
        yield from range(len(args))
        yield from kwargs
        return
    for place in mark or ():
        if isinstance(place, str):
            if place in kwargs or place == ROW:
                yield place
        elif isinstance(place, int) and 0 <= place < len(args):
            yield int(place)


def _mark_in(value: Any) -> Any:
    """Return the mark in an envelope: True for everything, a list of places, or None."""
    mark = value.get("s") if isinstance(value, dict) else None
    # What is no mark of ours was meant to hide something.
    return mark if mark is None or isinstance(mark, list) else True


def _counterpart(value: Any, original: Any, place: _Place) -> Any:
    """Return what in the edited value stands where the holder of a place stood."""
    if not isinstance(value, dict):
        return None
    if place.holder is original:
        holder: Any = value
    else:
        holder = value.get("args" if isinstance(place.holder, list) else "kwargs")
    if isinstance(holder, list) and isinstance(place.key, int):
        return holder if place.key < len(holder) else None
    return holder if isinstance(holder, dict) and place.key in holder else None


def _known(klass: str) -> _Known:
    job_type = registry.get(klass)
    if job_type is None:
        # Pages and commands may come before anybody has imported the jobs.
        _load()
        job_type = registry.get(klass)
    if job_type is None:
        return _Known(None)
    base = registry.base_of(klass)
    return _Known(
        sensitive_of(base or job_type),
        is_class=job_type.binding is Binding.CLASS,
        is_tick=base is not None,
    )


@cache
def _load() -> None:
    """Import the modules of jobs, once; `check` tells which of them cannot be."""
    list(failures())


def _read(data: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _all_hidden() -> Redacted:
    return Redacted(json.dumps(HIDDEN), ("data",))


def _written(value: Any, indent: int | None) -> str:
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return _text(text)


def _text(text: str) -> str:
    """Return text that UTF-8 can carry, whatever another program has put."""
    return text.encode("utf-8", "backslashreplace").decode()
