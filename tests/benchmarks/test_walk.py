"""The walk of a job stays short: a reader follows it through no more files than this."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: At most so many files and changes of file. More need a reason, and a change of
#: docs/explanation/house.md, which prints the walk.
MOST = {
    "enqueue": (10, 10),
    "take, run and finish one job": (12, 28),
    "run one job, finish it and take the next": (12, 21),
}


def test_a_job_crosses_few_files() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.walk", "--path"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    walks = {
        name: (int(files), int(changes))
        for name, files, changes in re.findall(
            r"^(.*): (\d+) files, (\d+) changes of file$", done.stdout, re.MULTILINE
        )
    }
    for part, (files, changes) in MOST.items():
        (name,) = (each for each in walks if part in each)
        assert walks[name][0] <= files, done.stdout
        assert walks[name][1] <= changes, done.stdout
