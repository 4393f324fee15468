"""Is a worker alive, is it ready? Told from its health file alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from django_qless.health import Unwell, examine

ROOT = Path(__file__).parents[1]


@pytest.fixture
def show(tmp_path: Path):
    """Writes a health file as a worker does that is well, but for these members."""

    def show(**members: Any) -> str:
        now = time.monotonic()
        told = {
            "name": "w1",
            "pid": os.getpid(),
            "state": "running",
            "running": 0,
            "turned": now - 1,
            "good": now - 2,
            "time": 0,
        }
        path = tmp_path / "health"
        path.write_text(json.dumps(told | members))
        return str(path)

    return show


def ended_pid() -> int:
    process = subprocess.Popen(["sleep", "0"])
    process.wait()
    return process.pid


def test_a_worker_that_is_well(show):
    alive, ready = examine(show()), examine(show(), ready=True)
    assert re.fullmatch(
        r"alive: worker w1, running, its loop turned \d\.\d s ago", alive
    )
    assert re.fullmatch(r"ready: worker w1, the server answered \d\.\d s ago", ready)


@pytest.mark.parametrize("state", ["quiet", "draining", "stopping", "starting"])
def test_who_takes_no_jobs_is_alive_and_not_ready(show, state):
    assert examine(show(state=state)).startswith("alive")
    with pytest.raises(Unwell, match=f"not ready: worker w1 is {state}"):
        examine(show(state=state), ready=True)


def test_who_has_no_server_is_alive_and_not_ready(show):
    silent = show(good=time.monotonic() - 60)
    assert examine(silent).startswith("alive")
    with pytest.raises(Unwell, match=r"not ready: .*answered worker w1 6\d\.\d s ago"):
        examine(silent, ready=True)
    with pytest.raises(Unwell, match="not reached the server yet"):
        examine(show(good=None), ready=True)


def test_a_loop_that_stands_still_is_dead(show):
    stuck = show(turned=time.monotonic() - 31)
    with pytest.raises(
        Unwell, match=r"dead: the loop .* 3\d\.\d s ago, more than 30 s"
    ):
        examine(stuck)
    assert examine(stuck, max_age=1000)


def test_a_file_of_an_earlier_boot_is_dead(show):
    with pytest.raises(Unwell, match=r"dead: .* before this machine was started"):
        examine(show(turned=time.monotonic() + 1000))


def test_a_process_that_is_gone_is_dead(show):
    pid = ended_pid()
    with pytest.raises(Unwell, match=f"dead: process {pid} of worker w1 is gone"):
        examine(show(pid=pid))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(Unwell, match=r"there is no file .*/nothing"):
        examine(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "garbage", "{", "[]", "null", "12", '{"pid": 1}', "\0", "\xff"),
        '{"name": 1, "state": "running", "pid": 1, "turned": 1, "good": 1}',
        '{"name": "w", "state": "running", "pid": "1", "turned": 1, "good": 1}',
        '{"name": "w", "state": "running", "pid": 1, "turned": null, "good": 1}',
        '{"name": "w", "state": "running", "pid": 1, "turned": 1, "good": "x"}',
        '{"name": "w", "state": "running", "pid": 1, "turned": 1}',
    ],
)
def test_garbage(tmp_path, text):
    path = tmp_path / "health"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(Unwell, match="not what a worker writes"):
        examine(str(path), ready=True)


def test_a_folder(tmp_path):
    with pytest.raises(Unwell, match="cannot be read"):
        examine(str(tmp_path))


class TestProgram:
    """Run as by a probe, where Django is not even installed."""

    CODE = (
        "import runpy, sys\n"
        "sys.modules['django'] = sys.modules['redis'] = None\n"
        "sys.argv[1:] = {arguments!r}\n"
        "runpy.run_module('django_qless.health', run_name='__main__')"
    )

    def run(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", self.CODE.format(arguments=[*arguments])],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def test_it_says_yes_or_no_and_why_in_one_line(self, show, tmp_path):
        code, said = self.run(show(), "--ready")
        assert (code, said.count("\n")) == (0, 1)
        assert said.startswith("ready: worker w1")
        code, said = self.run(str(tmp_path / "nothing"))
        assert (code, said.count("\n")) == (1, 1)
        assert said.startswith("dead: there is no file")

    def test_the_age_is_an_option(self, show):
        stuck = show(turned=time.monotonic() - 100)
        assert self.run(stuck)[0] == 1
        assert self.run(stuck, "--max-age", "1000")[0] == 0
        assert self.run("--max-age=1000", stuck)[0] == 0

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], "name one file"),
            (["a", "b"], "name one file"),
            (["a", "--maxage"], "no option --maxage"),
            (["a", "--max-age"], "needs a number"),
            (["a", "--max-age", "0"], "--max-age 0: give"),
            (["a", "--max-age", "nan"], "--max-age nan: give"),
        ],
    )
    def test_a_mistake_in_the_arguments(self, arguments, words):
        code, said = self.run(*arguments)
        assert code == 2
        assert words in said
