"""A message in shared memory: one process writes it, others read it, nobody waits."""

from __future__ import annotations

import json
from typing import Any


class Letter:
    """The latest JSON message of one writer.

    Two pages take turns: the writer fills the one that is not being read and then
    turns the leaf with a single store. So a writer that is killed half-way leaves the
    previous message whole.
    """

    WORD = 8

    def __init__(self, memory: memoryview) -> None:
        """Use `memory`, of which all bytes are zero: no message yet."""
        self._turns = memory[: self.WORD].cast("Q")
        rest = memory[self.WORD :]
        half = len(rest) // 2 // self.WORD * self.WORD
        self._pages = (rest[:half], rest[half : 2 * half])
        self._lengths = tuple(page[: self.WORD].cast("Q") for page in self._pages)
        self.capacity = half - self.WORD

    @property
    def turns(self) -> int:
        """How many messages have been written."""
        return self._turns[0]

    def write(self, message: Any) -> bool:
        """Replace the message; return whether it fitted (if not, the old one stays)."""
        text = json.dumps(message, separators=(",", ":")).encode()
        if len(text) > self.capacity:
            return False
        turns = self._turns[0] + 1
        page = turns & 1
        self._pages[page][self.WORD : self.WORD + len(text)] = text
        self._lengths[page][0] = len(text)
        self._turns[0] = turns
        return True

    def read(self) -> Any:
        """Return the latest message, None if there is none."""
        while turns := self._turns[0]:
            page = turns & 1
            length = min(self._lengths[page][0], self.capacity)
            text = bytes(self._pages[page][self.WORD : self.WORD + length])
            # A writer that turned the leaf meanwhile may be at this page already.
            if self._turns[0] == turns:
                return json.loads(text)
        return None

    def release(self) -> None:
        """Let go of the memory."""
        for view in (self._turns, *self._lengths, *self._pages):
            view.release()
