"""Job ids: later ones sort lower, as equal jobs are popped from the top."""

from __future__ import annotations

import os
import threading
import time
from binascii import b2a_base64
from collections.abc import Callable
from random import Random

# Sixty-four characters in the order of their codes, so that text sorts as numbers do.
ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_OURS = bytes.maketrans(_BASE64, ALPHABET)

_LATEST = (1 << 56) - 1
_DIGITS = {chr(character): value for value, character in enumerate(ALPHABET)}


class Generator:
    """Draws ids of 20 characters: 56 bits of time, falling, then 64 random bits.

    Ids of one process fall strictly, whatever its threads and its clock do. The random
    half keeps those of different processes apart.
    """

    def __init__(self) -> None:
        self._last = 0
        self.separate()

    def separate(self) -> None:
        """Start again in a forked process, which would draw the ids of its parent.

        The new seed is made with the first id: many processes never draw one.
        """
        self._lock = threading.Lock()
        self._random: Callable[[int], int] = self._first

    def _first(self, bits: int) -> int:
        self._random = Random(os.urandom(32)).getrandbits
        return self._random(bits)

    def draw(self) -> str:
        """Return a new id."""
        with self._lock:
            now = time.time_ns() // 1000
            if now <= self._last:
                now = self._last + 1
            self._last = now
            number = (_LATEST - now) << 64 | self._random(64)
        text = b2a_base64(number.to_bytes(15, "big"), newline=False)
        return text.translate(_TO_OURS).decode("ascii")


_generator = Generator()
os.register_at_fork(after_in_child=_generator.separate)

#: Return a new job id: 20 characters of 0-9 A-Z _ a-z ~.
new_jid = _generator.draw


def time_of(jid: str) -> float | None:
    """Return when a jid was drawn, in seconds of the epoch; None if foreign."""
    if len(jid) != 20 or not all(each in _DIGITS for each in jid):
        return None
    number = 0
    for each in jid:
        number = number << 6 | _DIGITS[each]
    return (_LATEST - (number >> 64)) / 1e6
