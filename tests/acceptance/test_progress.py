"""The demo's progress bar, on a terminal and elsewhere."""

from __future__ import annotations

import io

from demonstration.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_a_bar_that_fills() -> None:
    stream = Terminal()
    progress = Progress(8, stream)
    for done in (0, 4, 8):
        progress.show(done)
    progress.close()
    empty, half, full = stream.getvalue().strip().split("\r")
    assert "#" not in empty
    assert half.count("#") == half.count(".") > 0
    assert "." not in full.split("]")[0]
    assert "8 of 8 jobs" in full
    assert stream.getvalue().endswith("\n")


def test_anything_else_gets_a_line_for_each_tenth() -> None:
    stream = io.StringIO()
    progress = Progress(200, stream)
    for done in range(201):
        progress.show(done)
    progress.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("20 of 200 jobs")
    assert lines[-1].startswith("200 of 200 jobs")


def test_the_bar_never_goes_back() -> None:
    progress = Progress(10, io.StringIO())
    progress.show(6)
    progress.show(4)
    assert progress.done == 6
    progress.show(11)
    assert progress.done == 10


def test_nothing_to_do_is_done() -> None:
    stream = Terminal()
    Progress(0, stream).show(0)
    assert "0 of 0 jobs" in stream.getvalue()
