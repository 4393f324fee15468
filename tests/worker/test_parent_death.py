"""A child ends with its parent, with the kernel's help or without."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_servers import poll
from tests.worker.conftest import is_alive

ROOT = Path(__file__).parents[2]

FAMILY = """
import os, signal
from django_qless.worker import parent_death

if not {kernel_helps}:
    def refuse(*args):
        raise OSError("no such command")
    parent_death.fcntl.fcntl = refuse
theirs, ours = os.pipe()
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.close(ours)
    parent_death.die_with_writer(theirs)
    grandchild = os.fork()
    if grandchild:
        print(os.getpid(), grandchild, flush=True)
while True:
    signal.pause()
"""

BORN_LATE = """
import os
from django_qless.worker.parent_death import die_with_writer

told, tell = os.pipe()
theirs, ours = os.pipe()
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.close(ours)
    os.read(told, 1)
    die_with_writer(theirs)
    os._exit(0)
# The other end is closed before the child looks at it.
os.close(ours)
os.write(tell, b"!")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("kernel_helps", [True, False])
def test_the_end_of_the_parent_ends_the_group(kernel_helps: bool) -> None:
    script = FAMILY.format(kernel_helps=kernel_helps)
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert all(map(is_alive, pids))
        parent.send_signal(signal.SIGKILL)
    for pid in pids:
        poll(lambda pid=pid: not is_alive(pid), what=f"{pid} is gone")


def test_a_parent_that_is_gone_already_ends_the_child() -> None:
    told = subprocess.run(
        [sys.executable, "-c", BORN_LATE], cwd=ROOT, capture_output=True, check=True
    )
    assert int(told.stdout) == -signal.SIGKILL
