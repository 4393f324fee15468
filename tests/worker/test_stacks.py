"""Stack dumps: what a child writes, and what its parent logs."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from typing import TYPE_CHECKING

import pytest

from django_qless.worker.stacks import (
    MAX_READ,
    SIGNAL,
    DumpFile,
    enable_dumps,
    log_stacks,
    write_tasks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["in memory", "on disk"])
def file(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DumpFile]:
    if request.param == "on disk":
        monkeypatch.delattr(os, "memfd_create")
    file = DumpFile()
    yield file
    file.close()


def test_each_text_is_taken_once(file: DumpFile) -> None:
    assert (file.has_text, file.take()) == (False, "")
    for text, shown in ((b"first\n\n", "first"), (b"a\xffb", "a\ufffdb")):
        os.write(file.number, text)
        assert file.has_text
        assert file.take() == shown
        assert (file.has_text, file.take()) == (False, "")


def test_of_a_huge_dump_the_beginning_is_taken(file: DumpFile) -> None:
    text = b"begins" + b"x" * MAX_READ
    while text:
        text = text[os.write(file.number, text) :]
    taken = file.take()
    assert taken.startswith("begins")
    assert len(taken) == MAX_READ
    assert not file.has_text


async def signal_twice() -> None:
    for _ in range(2):
        signal.raise_signal(SIGNAL)


def test_a_child_writes_its_stacks_at_each_signal(file: DumpFile) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            enable_dumps(file)
            asyncio.run(signal_twice())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    text = file.take()
    assert text.count("in test_a_child_writes_its_stacks_at_each_signal") == 2
    assert text.count("\nTask ") == 2


async def inner(ready: asyncio.Event) -> None:
    ready.set()
    await asyncio.Event().wait()


async def outer(ready: asyncio.Event) -> None:
    await inner(ready)


def test_waiting_tasks_are_written_with_what_they_await() -> None:
    async def main() -> str:
        ready = asyncio.Event()
        done = asyncio.create_task(asyncio.sleep(0), name="done")
        await done
        waiting = asyncio.create_task(outer(ready), name="long")
        await ready.wait()
        to = io.StringIO()
        write_tasks(to)
        waiting.cancel()
        await asyncio.wait([waiting])
        return to.getvalue()

    written = asyncio.run(main())
    assert "Task done " not in written
    _, _, rest = written.partition("Task long (most recent call first):")
    lines = rest.partition("\nTask ")[0].strip().splitlines()
    assert [line.rpartition(" in ")[2] for line in lines] == ["wait", "inner", "outer"]
    assert f'File "{__file__}", line ' in lines[1]


def test_the_parent_logs_its_stacks_and_those_of_its_children(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_stacks({7: "seven", 8: "it did not answer"})
    logged = [record.getMessage() for record in caplog.records]
    own, *others = [text.partition("pid=")[2] for text in logged]
    assert own.startswith(f"{os.getpid()}\nthe parent:\n")
    assert "in log_stacks" in own
    assert others == ["7\nseven", "8\nit did not answer"]
