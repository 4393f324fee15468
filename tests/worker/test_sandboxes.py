"""Sandboxes: empty and private for each run, removed whatever happens to their users."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Reserved
from django_qless.worker.sandbox import Sandboxes
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Iterator


ROOT = Path(__file__).parents[2]


# A worker's process that has a sandbox, tells where, and waits.
WORKER = """
import sys
from tests.worker.test_sandboxes import job
from django_qless.worker.sandbox import Sandboxes
print(Sandboxes(sys.argv[1]).path_for(job("1")), flush=True)
sys.stdin.read()
"""


def job(token: str) -> Reserved:
    return Reserved("jid", "q", "k", "{}", token, 5, 5, 0, "[]", "", 0.0)


@pytest.fixture
def sandboxes(tmp_path: Path) -> Iterator[Sandboxes]:
    sandboxes = Sandboxes(tmp_path)
    yield sandboxes
    sandboxes.close()


def wait_until_removed(path: Path) -> None:
    poll(lambda: not path.exists(), what=f"{path} is removed")


def test_a_sandbox_is_empty_and_private(sandboxes: Sandboxes) -> None:
    path = sandboxes.path_for(job("1"))
    assert list(path.iterdir()) == []
    for folder in (path, path.parent):
        found = folder.stat()
        assert stat.S_IMODE(found.st_mode) == 0o700
        assert found.st_uid == os.getuid()


def test_each_run_has_its_own(sandboxes: Sandboxes) -> None:
    first, second = sandboxes.path_for(job("1")), sandboxes.path_for(job("2"))
    assert first != second
    assert sandboxes.path_for(job("1")) == first
    sandboxes.remove(job("1"))
    assert not first.exists()
    assert second.exists()
    assert sandboxes.path_for(job("1")) != first


def test_removal_does_not_follow_links(sandboxes: Sandboxes, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    path = sandboxes.path_for(job("1"))
    (path / "a" / "b").mkdir(parents=True)
    (path / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(path / "pipe")
    sandboxes.remove(job("1"))
    assert not path.exists()
    assert (tmp_path / "outside" / "kept").read_text() == "kept"


@pytest.mark.parametrize("folder", ["", "inner", "removed"])
@pytest.mark.parametrize("home_exists", [True, False])
def test_the_next_job_starts_outside_of_a_removed_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, home_exists: bool
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    sandboxes = Sandboxes(tmp_path)
    path = sandboxes.path_for(job("1")) / folder
    path.mkdir(exist_ok=True)
    os.chdir(path)
    if folder == "removed":
        path.rmdir()
    if not home_exists:
        home.rmdir()
    sandboxes.remove(job("1"))
    assert Path.cwd() == (home if home_exists else Path("/"))
    sandboxes.close()


def test_a_sandbox_that_cannot_be_removed_is_logged(
    sandboxes: Sandboxes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("shutil.rmtree", lambda path, **options: None)
    path = sandboxes.path_for(job("1"))
    sandboxes.remove(job("1"))
    assert f"the sandbox {path} could not be removed entirely" in caplog.text


def test_without_a_usable_folder_the_job_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Sandboxes(tmp_path / "file").path_for(job("1"))


def test_sandboxes_of_a_dead_child_are_removed(sandboxes: Sandboxes) -> None:
    folder = sandboxes.claim()
    child = os.fork()
    if child == 0:
        try:
            (sandboxes.path_for(job("1")) / "folder").mkdir()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    own = sandboxes.path_for(job("2"))
    assert len(list(folder.iterdir())) == 2
    sandboxes.sweep(child)
    poll(lambda: list(folder.iterdir()) == [own], what="the child's is removed")


def test_sandboxes_of_a_dead_worker_are_removed_by_the_next(tmp_path: Path) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    next_worker = Sandboxes(tmp_path)
    own = next_worker.claim()
    try:
        assert victim.stdout is not None
        path = Path(victim.stdout.readline().strip())
        next_worker.sweep_dead()
        next_worker.close()
        assert not own.exists()
        assert path.is_dir()
    finally:
        victim.kill()
        victim.communicate()
    next_worker.sweep_dead()
    wait_until_removed(path.parent)


def test_folders_of_others_stay(tmp_path: Path, sandboxes: Sandboxes) -> None:
    (tmp_path / "django_qless-jobs-link").symlink_to(tmp_path / "theirs")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "django_qless-jobs-file").write_text("")
    sandboxes.sweep_dead()
    sandboxes.close()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_worker_that_ends_leaves_nothing(tmp_path: Path) -> None:
    sandboxes = Sandboxes(tmp_path)
    sandboxes.path_for(job("1"))
    sandboxes.close()
    assert list(tmp_path.iterdir()) == []


def test_without_sandboxes_nothing_is_made(tmp_path: Path) -> None:
    sandboxes = Sandboxes(tmp_path / "nowhere")
    sandboxes.remove(job("1"))
    sandboxes.sweep_dead()
    sandboxes.sweep(1)
    sandboxes.close()
    assert list(tmp_path.iterdir()) == []
