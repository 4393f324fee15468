"""Tracebacks in failure messages, split into frames, with library calls folded."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field

# A frame, also one in a group of exceptions, whose lines start with bars.
_FRAME = re.compile(
    r'^[ |+\-]*  File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)$'
)
_LIBRARIES = ("/site-packages/", "/dist-packages/", "\\site-packages\\", "<frozen ")
_STANDARD = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
MOST_FRAMES = 600

MOST_OWN = 16
"""Own calls in a row; of more, those in the middle are folded."""
FIRST, LAST = 4, 8
"""Calls at the start and the end that are never folded."""


@dataclass
class Frame:
    """A call in a traceback."""

    file: str
    line: str
    name: str
    is_own: bool
    """True if it is the project's, not Python's or an installed package's."""
    code: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The code of the call."""
        return "\n".join(self.code)


@dataclass
class Section:
    """Frames of one kind in a row, or the lines between them."""

    frames: list[Frame] = field(default_factory=list)
    is_own: bool = True
    lines: list[str] = field(default_factory=list)
    is_middle: bool = False
    """True if they are the folded middle of many own calls."""

    @property
    def text(self) -> str:
        """The lines as they are."""
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Trace:
    """A failure message."""

    headline: str
    """The error, in one line."""
    sections: list[Section]
    """Empty if it has no traceback."""


def trace(message: str) -> Trace:
    """Return a failure message, split into sections."""
    lines = message.rstrip("\n").split("\n")
    sections = [part for section in _sections(lines) for part in _folded(section)]
    if not any(section.frames for section in sections):
        return Trace(_headline(lines, has_frames=False), [])
    return Trace(_headline(lines, has_frames=True), sections)


def _sections(lines: list[str]) -> Iterator[Section]:
    current = Section()
    frames = 0
    frame: Frame | None = None
    for line in lines:
        found = _FRAME.match(line) if frames < MOST_FRAMES else None
        if found:
            frames += 1
            frame = Frame(
                found["file"], found["line"], found["name"], _is_own(found["file"])
            )
            if not current.frames or current.is_own != frame.is_own:
                if current.frames or current.lines:
                    yield current
                current = Section(is_own=frame.is_own)
            current.frames.append(frame)
        elif frame is not None and line.startswith("    "):
            frame.code.append(line[4:])
        else:
            frame = None
            if current.frames:
                yield current
                current = Section()
            current.lines.append(line)
    if current.frames or current.lines:
        yield current


def _folded(section: Section) -> list[Section]:
    """Return a section; a long one as its start, middle and end."""
    frames = section.frames
    if not section.is_own or len(frames) <= MOST_OWN:
        return [section]
    return [
        Section(frames[:FIRST]),
        Section(frames[FIRST:-LAST], is_middle=True),
        Section(frames[-LAST:]),
    ]


def _headline(lines: list[str], *, has_frames: bool) -> str:
    """Return the line with the error: in a traceback, the one after the calls."""
    texts = [line for line in lines if line.strip()]
    if not texts:
        return ""
    if not has_frames:
        return texts[0]
    last = max((n for n, line in enumerate(texts) if _FRAME.match(line)), default=0)
    for line in texts[last + 1 :]:
        if not line.startswith((" ", "|", "+")):
            return line
    return texts[0]


def _is_own(file: str) -> bool:
    return not (any(part in file for part in _LIBRARIES) or file.startswith(_STANDARD))
