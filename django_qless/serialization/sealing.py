"""Sealed texts: JSON that is compressed, encrypted or both, as a JSON string.

    "qless:zlib:<base64>"      compressed; "qless:zstd:…" likewise
    "qless:fernet:<token>"     encrypted; in the token, a byte for how it is compressed
                               ("j" not at all, "z" zlib, "s" zstd) before the text

Other clients see a string. Nothing else in the package knows this form but
`core.settle.SEALED`, by which sealed texts are told.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from django_qless.core.settle import SEALED
from django_qless.exceptions import Fail

#: The failure group of jobs whose keys are gone, or whose texts are damaged.
CANNOT_DECRYPT = "cannot-decrypt"

#: No text is longer once it is opened: a small one may have been made to fill the memory.
MOST_OPENED_BYTES = 64 * 1024 * 1024

#: Shorter texts are not compressed.
MIN_COMPRESSED_BYTES = 1024

ZSTD_MODULES = ("compression.zstd", "zstandard", "backports.zstd")

_LETTERS = {"json": b"j", "zlib": b"z", "zstd": b"s"}
_METHODS = {letter: method for method, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class Codec:
    """The way in which texts are sealed."""

    cipher: Any = None
    """What encrypts, a MultiFernet; None: nothing is encrypted."""
    compression: str | None = None

    def seal(self, text: str) -> str:
        """Return the text sealed; as it is if there is nothing to do with it."""
        if is_sealed(text):
            return text
        raw, method = text.encode(), "json"
        if self.compression is not None and len(raw) >= MIN_COMPRESSED_BYTES:
            packed = _pack(self.compression, raw)
            # Base64 takes a third more: what is random grows.
            if len(packed) * 4 < len(raw) * 3:
                raw, method = packed, self.compression
        if self.cipher is not None:
            token = self.cipher.encrypt(_LETTERS[method] + raw)
            return f'{SEALED}fernet:{token.decode()}"'
        if method == "json":
            return text
        return f'{SEALED}{method}:{b64encode(raw).decode()}"'


def is_sealed(text: str) -> bool:
    """Return whether a JSON text is a sealed one."""
    return text.startswith(SEALED)


def open_text(text: str, cipher: Any) -> str:
    """Return what was sealed; a text that is not sealed as it is.

    `cipher` is a MultiFernet of all keys that there are, or None. Raises Fail, group
    `cannot-decrypt`.
    """
    if not is_sealed(text):
        return text
    method, _, body = text[len(SEALED) : -1].partition(":")
    if method == "fernet":
        raw = _decrypted(body, cipher)
        method, raw = _METHODS.get(raw[:1], "?"), raw[1:]
    elif method in ("zlib", "zstd"):
        raw = _guarded(lambda: b64decode(body, validate=True))
    else:
        return text  # a string of somebody else's
    if method == "json":
        return raw.decode()
    opened: str = _guarded(lambda: _unpack(method, raw).decode())
    return opened


def _decrypted(token: str, cipher: Any) -> bytes:
    if cipher is None:
        raise Fail(
            CANNOT_DECRYPT,
            "It is encrypted, and there is no key: QLESS has no ENCRYPTION_KEYS here. "
            "Add the key with which it was enqueued, and retry it.",
        )
    from cryptography.fernet import InvalidToken

    try:
        found: bytes = cipher.decrypt(token.encode())
    except InvalidToken:
        raise Fail(
            CANNOT_DECRYPT,
            "None of the keys in ENCRYPTION_KEYS opens it: its key has been removed, or "
            "it is damaged. Add the key with which it was enqueued, and retry it.",
        ) from None
    return found


def _guarded(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except ImportError as error:
        raise Fail(CANNOT_DECRYPT, f"It cannot be opened here: {error}") from None
    except Exception as error:  # noqa: BLE001  whatever damaged bytes raise
        raise Fail(CANNOT_DECRYPT, f"It is damaged: {error}") from None


def _pack(method: str, raw: bytes) -> bytes:
    if method == "zlib":
        return zlib.compress(raw)
    packed: bytes = zstd().compress(raw)
    return packed


def _unpack(method: str, raw: bytes) -> bytes:
    if method == "zlib":
        reader = zlib.decompressobj()
        found = reader.decompress(raw, MOST_OPENED_BYTES)
        if reader.unconsumed_tail or not reader.eof:
            raise ValueError(
                f"it is incomplete, or longer than {MOST_OPENED_BYTES:,} bytes uncompressed"
            )
        return found
    return _unpack_zstd(raw)


def _unpack_zstd(raw: bytes) -> bytes:
    module = zstd()
    if module.__name__ == "zstandard":
        # Its own limit holds only where the frame does not tell its size.
        size = module.frame_content_size(raw)
        if size > MOST_OPENED_BYTES:
            raise ValueError(f"it has {size:,} bytes")
        found: bytes = module.ZstdDecompressor().decompress(
            raw, max_output_size=MOST_OPENED_BYTES
        )
        return found
    reader: Any = module.ZstdDecompressor()
    found = reader.decompress(raw, MOST_OPENED_BYTES)
    if not reader.eof:
        raise ValueError(
            f"it is incomplete, or longer than {MOST_OPENED_BYTES:,} bytes uncompressed"
        )
    return found


@cache
def zstd() -> Any:
    """Return the module that knows zstd. Raises ImportError."""
    for name in ZSTD_MODULES:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise ImportError("no module knows zstd: pip install django-qless[zstd]")


def new_cipher(keys: Sequence[str]) -> Any:
    """Return a MultiFernet: the first key encrypts, each decrypts.

    Raises ImportError without `cryptography`, ValueError for a key that is none.
    """
    try:
        from cryptography.fernet import Fernet, MultiFernet
    except ImportError as error:
        raise ImportError(
            "encryption needs cryptography: pip install django-qless[encryption]"
        ) from error
    return MultiFernet([Fernet(key) for key in keys])
