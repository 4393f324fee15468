"""Stack dumps: what a child writes, and what its parent makes of it."""

from __future__ import annotations

import asyncio
import io
import logging
import math
import os
import signal
import time
from contextvars import copy_context
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import ConnectionLost
from django_qless.worker.interrupt import await_in_context
from django_qless.worker.stacks import (
    ANSWER_TIME,
    MAX_READ,
    MAX_STORED,
    SIGNAL,
    DumpFile,
    StackDumps,
    also_write,
    enable_dumps,
    frames_of,
    write_tasks,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from django_qless.core import Client


@pytest.fixture(params=["in memory", "on disk"])
def file(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DumpFile]:
    if request.param == "on disk":
        monkeypatch.delattr(os, "memfd_create")
    file = DumpFile()
    yield file
    file.close()


class TestFile:
    def test_each_text_is_taken_once(self, file: DumpFile) -> None:
        assert (file.has_text, file.take()) == (False, "")
        for text in (b"first\n\n", b"2"):
            os.write(file.number, text)
            assert file.has_text
            assert file.take() == text.decode().strip()
            assert (file.has_text, file.take()) == (False, "")

    def test_what_is_no_text_is_shown_as_far_as_it_is(self, file: DumpFile) -> None:
        os.write(file.number, b"a\xffb")
        assert file.take() == "a\N{REPLACEMENT CHARACTER}b"

    def test_of_very_much_the_beginning_is_taken(self, file: DumpFile) -> None:
        text = b"begins" + b"x" * MAX_READ
        while text:
            text = text[os.write(file.number, text) :]
        taken = file.take()
        assert taken.startswith("begins")
        assert len(taken) == MAX_READ
        assert not file.has_text


def test_a_child_writes_as_often_as_it_is_asked(file: DumpFile) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            enable_dumps(file.number)
            also_write(lambda to: print("the end", file=to))
            for _ in range(2):
                signal.raise_signal(SIGNAL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert file.take().count("the end") == 2


async def inner(ready: asyncio.Event) -> None:
    ready.set()
    await asyncio.Event().wait()


async def outer(ready: asyncio.Event) -> None:
    await inner(ready)


async def generated(ready: asyncio.Event) -> AsyncIterator[None]:
    await inner(ready)
    yield


async def through_a_generator(ready: asyncio.Event) -> None:
    async for _ in generated(ready):
        pass


async def in_a_context(ready: asyncio.Event) -> None:
    await await_in_context(copy_context(), outer(ready))


class TestTasks:
    def written(self, function: Any) -> list[str]:
        """Return what is written of the tasks while one awaits in this function."""

        async def main() -> list[str]:
            ready = asyncio.Event()
            done = asyncio.create_task(asyncio.sleep(0), name="done")
            await done
            waiting = asyncio.create_task(function(ready), name="long")
            await ready.wait()
            to = io.StringIO()
            write_tasks(to)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert "Task done " not in to.getvalue()
            _, _, rest = to.getvalue().partition("Task long (most recent call first):")
            return rest.partition("\nTask ")[0].strip().splitlines()

        return asyncio.run(main())

    @pytest.mark.parametrize(
        ("function", "names"),
        [
            (outer, ["wait", "inner", "outer"]),
            (
                in_a_context,
                ["wait", "inner", "outer", "await_in_context", "in_a_context"],
            ),
        ],
    )
    def test_those_that_wait_are_shown_with_what_they_await(
        self, function: Any, names: list[str]
    ) -> None:
        lines = self.written(function)
        assert [line.rpartition(" in ")[2] for line in lines] == names
        assert f'File "{__file__}", line ' in lines[1]

    def test_what_cannot_be_looked_into_ends_the_list(self) -> None:
        lines = self.written(through_a_generator)
        assert lines[-1].endswith(" in through_a_generator")

    def test_what_has_ended_has_no_frames(self) -> None:
        coroutine = outer(asyncio.Event())
        assert [frame.f_code.co_name for frame in frames_of(coroutine)] == ["outer"]
        coroutine.close()
        assert list(frames_of(coroutine)) == []
        assert list(frames_of(None)) == []
        assert list(frames_of(object())) == []


class Child(SimpleNamespace):
    """A child that writes these stacks when it is asked."""

    def __init__(self, pid: int, text: str, *, suspended: bool = False) -> None:
        super().__init__(pid=pid, text=text, suspended=suspended, asked=0)

    __hash__ = object.__hash__

    def dump(self) -> None:
        self.asked += 1

    def stacks(self) -> str:
        return self.text if self.asked else ""


def logged(caplog: pytest.LogCaptureFixture) -> dict[int, str]:
    """Return the stacks that were logged, by process."""
    records = [each for each in caplog.records if getattr(each, "fields", None)]
    found = {
        each.fields["pid"]: each.fields["text"]  # type: ignore[attr-defined]
        for each in records
        if each.action == "stacks"  # type: ignore[attr-defined]
    }
    for record, (pid, text) in zip(records, found.items(), strict=False):
        assert record.getMessage() == f"stacks worker=w pid={pid}\n{text}"
    caplog.clear()
    return found


class TestParent:
    @pytest.fixture
    def dumps(self, client: Client) -> StackDumps:
        client.beat("w", "{}", ())
        return StackDumps(client, "w")

    def test_children_are_asked_and_have_time_to_answer(
        self, dumps: StackDumps
    ) -> None:
        assert dumps.due == math.inf
        children: Any = [Child(7, "seven"), Child(8, "eight")]
        before = time.monotonic()
        dumps.request(children)
        due = dumps.due
        assert before + ANSWER_TIME <= due <= time.monotonic() + ANSWER_TIME
        # Who asks again meanwhile does not put it off.
        dumps.request(children[:1])
        assert dumps.due == due
        assert [child.asked for child in children] == [2, 1]
        dumps.log(children)
        assert dumps.due == math.inf

    def test_those_that_were_asked_and_are_still_there_are_logged(
        self, dumps: StackDumps, caplog: pytest.LogCaptureFixture
    ) -> None:
        seven, gone, silent, still, other = children = [
            Child(7, "seven"),
            Child(8, "gone"),
            Child(9, ""),
            Child(10, "", suspended=True),
            Child(11, "not asked"),
        ]
        dumps.request(children[:-1])  # type: ignore[arg-type]
        dumps.log([seven, silent, still, other])  # type: ignore[list-item]
        own, *rest = (found := logged(caplog))
        assert own == os.getpid()
        assert found[own].startswith("the parent:\n")
        assert "in log" in found[own]
        assert [found[pid] for pid in rest] == [
            "seven",
            "it did not answer",
            "it is suspended",
        ]
        # It is not logged again.
        dumps.log([seven, gone])  # type: ignore[list-item]
        assert list(logged(caplog)) == [own]

    def test_the_server_is_sent_what_was_asked_for_through_it(
        self, dumps: StackDumps, client: Client
    ) -> None:
        children: Any = [Child(7, "seven")]
        dumps.request(children)
        dumps.log(children)
        assert client.stacks("w") is None
        dumps.request(children, store=True)
        dumps.request(children)
        dumps.log(children)
        stored = client.stacks("w")
        assert stored is not None
        assert stored.startswith(f"pid {os.getpid()}: the parent:\n")
        assert stored.endswith("\n\npid 7: seven")
        # Once.
        children[0].text = "another"
        dumps.request(children)
        dumps.log(children)
        assert client.stacks("w") == stored

    def test_the_server_is_sent_as_much_as_it_takes(
        self, dumps: StackDumps, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        # What is logged goes to the process that collects reports, which takes UTF-8.
        caplog.set_level(logging.CRITICAL, "django_qless.worker")
        children: Any = [Child(7, "\udce9" + "ä" * MAX_STORED)]
        dumps.request(children, store=True)
        dumps.log(children)
        stored = client.stacks("w")
        assert stored is not None
        assert MAX_STORED - 1 <= len(stored.encode()) <= MAX_STORED
        assert stored.endswith("ää")

    def test_a_server_that_is_away_costs_only_what_it_would_have_kept(
        self,
        dumps: StackDumps,
        client: Client,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        def fail(*args: Any) -> None:
            raise ConnectionLost("away")

        monkeypatch.setattr(client, "keep_stacks", fail)
        caplog.set_level(logging.WARNING, "django_qless.worker")
        children: Any = [Child(7, "seven")]
        dumps.request(children, store=True)
        dumps.log(children)
        assert "stacks not stored" in caplog.text
        assert logged(caplog)[7] == "seven"
