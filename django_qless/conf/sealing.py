"""What the settings say of sealed texts: by which codec an alias seals, what opens them.

Any key of the setting opens: the keys of an alias may have moved to another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django_qless import conf
from django_qless.core.settle import SEALED
from django_qless.serialization import sealing
from django_qless.serialization.json_values import to_json
from django_qless.serialization.sealing import Codec, is_sealed

#: The member of a job's context that holds what is encrypted of it. Options of a call
#: stay readable: workers and pages need them before, and without, any key.
MEMBER = "sealed"
READABLE = "options"

_codecs: dict[str, Codec | None] = {}
_ciphers: list[Any] = []


def codec_of(alias: str) -> Codec | None:
    """Return by what the texts of an alias are sealed, None for nothing."""
    if alias not in _codecs:
        settings = conf.alias(alias)
        keys = settings.encryption_keys
        cipher = sealing.new_cipher(keys) if keys else None
        is_plain = cipher is None and settings.compression is None
        _codecs[alias] = None if is_plain else Codec(cipher, settings.compression)
    return _codecs[alias]


def open_text(text: str) -> str:
    """Return a text as it was before it was sealed.

    Raises Fail, group `cannot-decrypt`, if no key in the settings opens it.
    """
    return sealing.open_text(text, _any_cipher()) if is_sealed(text) else text


def open_value(value: Any) -> Any:
    """Return a JSON value as it was before its text was sealed. Raises Fail."""
    if not isinstance(value, str) or not f'"{value}'.startswith(SEALED):
        return value
    text = f'"{value}"'
    opened = open_text(text)
    # A string of somebody else's may begin so.
    return value if opened is text else json.loads(opened)


def seal_context(text: str, codec: Codec) -> str:
    """Return a context, given as JSON, with all but its options encrypted."""
    members = json.loads(text)
    hidden = {name: value for name, value in members.items() if name != READABLE}
    if codec.cipher is None or not hidden:
        return text
    shown = {name: value for name, value in members.items() if name == READABLE}
    sealed = json.loads(codec.seal(to_json(hidden)))
    return to_json({**shown, MEMBER: sealed})


def open_context(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return a context as it was before it was sealed. Raises Fail."""
    opened = {name: value for name, value in context.items() if name != MEMBER}
    if MEMBER in context:
        opened |= open_value(context[MEMBER])
    return opened


def _any_cipher() -> Any:
    """Return what opens texts of any alias, None without keys."""
    if not _ciphers:
        aliases = map(conf.alias, conf.alias_names())
        keys = dict.fromkeys(key for each in aliases for key in each.encryption_keys)
        _ciphers.append(sealing.new_cipher(list(keys)) if keys else None)
    return _ciphers[0]


def _forget() -> None:
    _codecs.clear()
    _ciphers.clear()


conf.on_change(_forget)
