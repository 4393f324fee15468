"""Redaction of sensitive arguments and results, wherever people see them.

Hidden is what the job's code declares sensitive now, and what the job was marked with
when it was enqueued, so a rename or unknown code reveals nothing.
The data of a class job that this project does not know have no mark: they are shown.

    @job(sensitive="password")               the argument of this parameter
    @job(sensitive=["card", "return"])       "return" is the result
    @job(sensitive=True)                     all arguments, and the result

The mark in a job's envelope says where these values are: `"s": [1, "card", "return"]`,
positions, keywords and the words below, or `"s": true`. Other readers pass over it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from inspect import Parameter
from typing import Any, NamedTuple

from django_qless.conf.sealing import open_text
from django_qless.exceptions import Fail, InvalidOption
from django_qless.job_types.discovery import import_failures
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.job_types.signature import POSITIONAL
from django_qless.serialization.envelope import ROW_KEY, Envelope, mark_part
from django_qless.serialization.json_values import json_or_none
from django_qless.serialization.sealing import is_sealed

HIDDEN = "[hidden]"

#: What stands in place of data that no key in the settings opens.
SEALED_NOW = "[encrypted, and no key here opens it]"

#: The result, among the names of parameters; as a keyword it can be none of them.
RETURN = "return"

#: The row on which a job runs, among positions and keywords.
ROW = ""


class Redacted(NamedTuple):
    """Data as people may see them."""

    text: str
    """JSON, with HIDDEN in place of what is sensitive."""
    hidden: tuple[str, ...]
    """The names of the hidden parameters."""


class _Place(NamedTuple):
    """The position of a value: its list or object, index or key, and name."""

    holder: Any
    key: Any
    name: str


class _Known(NamedTuple):
    """The sensitive values that the code declares; none if it is unknown."""

    sensitive: SensitiveValues | None
    is_class: bool = False
    is_tick: bool = False
    """True if it enqueues the jobs of a tick, whose data are its argument."""


def redact(klass: str, data: str, *, indent: int | None = 2) -> Redacted:
    """Return the data of a job, or of a schedule, as people may see them.

    Pretty, unless `indent` is None; then data of which nothing is hidden stay as they
    are. Raises nothing: data that cannot be read are hidden whole if any of them might be
    sensitive.
    """
    known = _known(klass)
    try:
        data = open_text(data)
    except Fail:
        return Redacted(json.dumps(SEALED_NOW), ("data",))
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


def data_for_log(klass: str, data: str) -> str:
    """Return the data of a job as a log may have them: nothing that may be sensitive.

    Hidden whole are those of a job that is not known here, and sealed ones: a log is read
    by others than those who have the keys.
    """
    if registry.get(klass) is None or is_sealed(data):
        return HIDDEN
    return redact(klass, data, indent=None).text


def may_show_result(klass: str, data: str = "") -> bool:
    """Return whether people may see what a job has returned; `data` are the job's."""
    sensitive = _known(klass).sensitive
    if sensitive is not None and sensitive.result:
        return False
    try:
        mark = _mark_in(json_or_none(open_text(data)))
    except Fail:
        return False
    return mark is not True and RETURN not in (mark or ())


def may_show_output(klass: str, data: str) -> bool:
    """Return whether people may see what the process of a detached job has written.

    A job may print any of its values, so one that is sensitive hides all of the output.
    """
    return may_show_result(klass, data) and not redact(klass, data).hidden


def may_show_payloads(klass: str, data: str = "") -> bool:
    """Return whether people may see what was pushed for an entity.

    A payload is not an argument: a sensitive parameter hides all of it.
    `data` are the job's.
    """
    sensitive = _known(klass).sensitive
    if sensitive is not None and sensitive.hides_payloads:
        return False
    try:
        return _mark_in(json_or_none(open_text(data))) is None
    except Fail:
        return False


def restore_hidden(klass: str, edited: str, data: str) -> str:
    """Return edited data with the values put back that are hidden from the editor.

    `edited` is what became of the text that `redact` made of `data`: where it still says
    HIDDEN in place of a hidden value, that value is taken from `data`. Raises ValueError
    if it is no JSON.
    """
    value, data = json.loads(edited), open_text(data)
    original = json_or_none(data)
    if value == HIDDEN:
        return data
    for place in _places(original, _known(klass)):
        holder = _counterpart(value, original, place)
        if holder is not None and holder[place.key] == HIDDEN:
            holder[place.key] = place.holder[place.key]
    if isinstance(value, dict) and isinstance(original, dict):
        # Or else taking the mark away would bring to light what is hidden by it.
        Envelope(value).keep_mark(Envelope(original))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _places(value: Any, known: _Known) -> Iterator[_Place]:
    """Yield the places of sensitive values; a holder of None means the whole."""
    sensitive = known.sensitive
    if known.is_class:
        if sensitive is not None:
            yield from _members(value, sensitive)
        return
    envelope = Envelope.of(value)
    if envelope is None:
        # Another program enqueued it, or a person did.
        if sensitive is not None or _mark_in(value) is not None:
            yield _Place(None, None, "data")
        return
    args, kwargs = envelope.args, envelope.kwargs
    found: dict[int | str, str] = {}
    for place in _marked(envelope.mark, args, kwargs):
        found[place] = f"argument {place + 1}" if isinstance(place, int) else place
    if sensitive is not None and not known.is_tick:
        found.update(sensitive.places(args, kwargs))
    elif sensitive is not None and args:
        # What a tick hands on: the whole data of the job that it enqueues.
        found[0] = "data"
    for where, name in found.items():
        if where == ROW and envelope.has_row:
            yield _Place(value, ROW_KEY, name or "row")
        elif where != ROW:
            yield _Place(args if isinstance(where, int) else kwargs, where, name)


def _members(value: Any, sensitive: SensitiveValues) -> Iterator[_Place]:
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
    return Envelope(value).mark if isinstance(value, dict) else None


def _counterpart(value: Any, original: Any, place: _Place) -> Any:
    """Return the counterpart of a place's holder in the edited value."""
    if not isinstance(value, dict):
        return None
    if place.holder is original:
        holder: Any = value
    else:
        edited = Envelope(value)
        holder = edited.args if isinstance(place.holder, list) else edited.kwargs
    if isinstance(holder, list) and isinstance(place.key, int):
        return holder if place.key < len(holder) else None
    return holder if isinstance(holder, dict) and place.key in holder else None


def _known(klass: str) -> _Known:
    job_type = registry.get(klass)
    if job_type is None:
        # Pages and commands may run before the jobs are imported.
        _load()
        job_type = registry.get(klass)
    if job_type is None:
        return _Known(None)
    base = registry.base_of(klass)
    return _Known(
        sensitive_values(base or job_type),
        is_class=job_type.binding is Binding.CLASS,
        is_tick=base is not None,
    )


@cache
def _load() -> None:
    """Import the modules of jobs, once; `check` tells which of them cannot be."""
    list(import_failures())


def _all_hidden() -> Redacted:
    return Redacted(json.dumps(HIDDEN), ("data",))


def _written(value: Any, indent: int | None) -> str:
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return _text(text)


def _text(text: str) -> str:
    """Return text that UTF-8 can carry, even for data from other programs."""
    return text.encode("utf-8", "backslashreplace").decode()


class SensitiveValues:
    """The parameters of one job whose values are hidden."""

    __slots__ = ("_parameters", "_skipped", "everything", "names", "result")

    def __init__(
        self, names: Sequence[str] | bool, function: Callable[..., Any], skipped: int
    ) -> None:
        """`skipped` is how many parameters, the first, are none of the caller's."""
        self.everything = names is True
        self.names = frozenset() if isinstance(names, bool) else frozenset(names)
        self.result = self.everything or RETURN in self.names
        self._parameters = parameters_of(function)
        self._skipped = self._parameters[:skipped]

    @property
    def hides_payloads(self) -> bool:
        """True if a parameter is sensitive: one of them gets the payloads."""
        return self.everything or bool(self.names - {RETURN})

    def places(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Iterator[tuple[int | str, str]]:
        """Yield where in a call sensitive values are, and what to call each."""
        parameters = self._parameters[len(self._skipped) :]
        plain = [each.name for each in parameters if each.kind in POSITIONAL]
        rest = {each.kind: each.name for each in parameters}
        for at in range(len(args)):
            # Too many, too, belong to what takes all: better hidden than shown.
            name = plain[at] if at < len(plain) else rest.get(Parameter.VAR_POSITIONAL)
            if self._hides(name):
                yield at, name or f"argument {at + 1}"
        named = {each.name for each in parameters}
        all_others = self._hides(rest.get(Parameter.VAR_KEYWORD))
        for keyword in kwargs:
            if self._hides(keyword) or (keyword not in named and all_others):
                yield keyword, keyword
        for each in self._skipped:
            if each.name in self.names:
                yield ROW, each.name

    def mark(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] = {}) -> str:
        """Return the envelope's part that says where the values of a call are."""
        if self.everything:
            return mark_part(True)
        places = [place for place, _ in self.places(args, kwargs)]
        return mark_part([*places, RETURN] if self.result else places)

    def _hides(self, name: str | None) -> bool:
        return self.everything or name in self.names


@lru_cache(maxsize=1000)
def sensitive_values(job_type: JobType) -> SensitiveValues | None:
    """Return the sensitive values of a job's calls, None if there are none."""
    names = job_type.options.sensitive
    if not names:
        return None
    skipped = job_type.is_bound or job_type.takes_context
    return SensitiveValues(names, job_type.function, int(skipped))


def mark_of(job_type: JobType) -> str:
    """Return the envelope's part for a job that is enqueued without arguments."""
    found = sensitive_values(job_type) if job_type.options.sensitive else None
    return found.mark() if found and job_type.binding is not Binding.CLASS else ""


def mark_of_entity(job_type: JobType) -> str:
    """Return the envelope's part for an entity: whether its payloads are sensitive."""
    found = sensitive_values(job_type) if job_type.options.sensitive else None
    return mark_part(True) if found and found.hides_payloads else ""


def validate_sensitive(
    whose: str, names: Sequence[str] | bool, function: Callable[..., Any]
) -> None:
    """Raise InvalidOption if a name in `sensitive` is that of no parameter.

    A class job has none: there the names are members of its data.
    """
    if isinstance(names, bool):
        return
    if inspect.isclass(function):
        if RETURN in names:
            raise InvalidOption(
                f'{whose}: sensitive="return": a class job returns nothing. Name '
                "members of its data, or say sensitive=True for all of them."
            )
        return
    parameters = parameters_of(function)
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return
    known = [each.name for each in parameters]
    for name in names:
        if name not in known and name != RETURN:
            has = f"has {', '.join(known)}" if known else "has none"
            raise InvalidOption(
                f"{whose}: sensitive names {name!r}, and there is no such parameter: it "
                f'{has}; "return" is the result, and True stands for everything.'
            )


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function, none if it does not tell."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
