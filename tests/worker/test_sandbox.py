"""Sandboxes: made clean, kept apart, removed whatever happens to whoever used them."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Reserved
from django_qless.worker import sandbox
from django_qless.worker.options import WorkerOptions
from django_qless.worker.sandbox import Sandboxes
from django_qless.worker.server_checks import CannotStart
from django_qless.worker.worker import Worker
from tests.real_servers import poll
from tests.worker.plain import PlainEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Ledger

ROOT = Path(__file__).parents[2]

# A worker's process that has a sandbox, tells where, and waits.
WORKER = """
import sys
from tests.worker.test_sandbox import job
from django_qless.worker.sandbox import Sandboxes
sandboxes = Sandboxes("victim", sys.argv[1])
print(sandboxes.path_for(job("1")), flush=True)
sys.stdin.read()
"""


def job(token: str, jid: str = "jid") -> Reserved:
    return Reserved(jid, "q", "k", "{}", token, 5, 5, 0, "[]", "", 0.0)


@pytest.fixture
def sandboxes(tmp_path: Path) -> Iterator[Sandboxes]:
    sandboxes = Sandboxes("w", tmp_path)
    yield sandboxes
    sandboxes.close()


def gone(path: Path) -> None:
    poll(lambda: not path.exists(), what=f"{path} is removed")


class TestOfJobs:
    def test_it_is_empty_and_for_this_user_alone(self, sandboxes: Sandboxes) -> None:
        path = sandboxes.path_for(job("1"))
        assert list(path.iterdir()) == []
        for folder in (path, *list(path.parents)[:3]):
            found = folder.stat()
            assert stat.S_IMODE(found.st_mode) == 0o700
            assert found.st_uid == os.getuid()

    def test_each_run_has_its_own(self, sandboxes: Sandboxes) -> None:
        first, second = sandboxes.path_for(job("1")), sandboxes.path_for(job("2"))
        assert first != second
        assert sandboxes.path_for(job("1")) == first
        sandboxes.remove(job("1"))
        assert not first.exists()
        assert second.exists()
        # Nothing of an earlier one is in it.
        assert sandboxes.path_for(job("1")) != first

    @pytest.mark.parametrize(
        "jid", ["../../../x", "/etc", "a\0b", "x" * 255, "-rf", "é"]
    )
    def test_a_jid_may_be_anything(self, sandboxes: Sandboxes, jid: str) -> None:
        path = sandboxes.path_for(job("1", jid))
        assert path.is_dir()
        assert path.parent == sandboxes.folder / str(os.getpid())

    @pytest.mark.parametrize("name", ["../../up", "a b/c", "", ".hidden", "x" * 500])
    def test_and_so_may_a_workers_name(self, tmp_path: Path, name: str) -> None:
        sandboxes = Sandboxes(name, tmp_path)
        assert sandboxes.path_for(job("1")).is_dir()
        assert sandboxes.folder.parent == sandboxes.base
        sandboxes.close()

    def test_all_of_it_is_removed(self, sandboxes: Sandboxes, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "kept").write_text("kept")
        path = sandboxes.path_for(job("1"))
        closed = path / "a" / "b"
        closed.mkdir(parents=True)
        (closed / "file").write_text("x")
        (path / "link").symlink_to(outside)
        (closed / "link").symlink_to(outside / "kept")
        os.mkfifo(path / "pipe")
        closed.chmod(0)
        (path / "a").chmod(0o500)
        path.chmod(0)
        sandboxes.remove(job("1"))
        assert not path.exists()
        assert (outside / "kept").read_text() == "kept"
        assert sandboxes.in_use == {}

    def test_one_that_never_was_is_removed_as_well(self, sandboxes: Sandboxes) -> None:
        sandboxes.remove(job("1"))
        assert not sandboxes.base.exists()

    @pytest.mark.parametrize("is_linked", [False, True])
    def test_a_job_that_went_there_is_led_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_linked: bool
    ) -> None:
        monkeypatch.chdir(tmp_path)
        folder = tmp_path
        if is_linked:
            # As /tmp is on some systems.
            folder = tmp_path / "link"
            folder.symlink_to(tmp_path)
        sandboxes = Sandboxes("w", folder)
        for job_went_to in ("", "deep"):
            path = sandboxes.path_for(job("1"))
            (path / job_went_to).mkdir(exist_ok=True)
            os.chdir(path / job_went_to)
            sandboxes.remove(job("1"))
            assert Path.cwd() == tmp_path
        sandboxes.close()

    @pytest.mark.parametrize("home_is_there", [True, False])
    def test_a_job_that_removes_the_folder_it_is_in_takes_no_other_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home_is_there: bool
    ) -> None:
        home = tmp_path / "home"
        home.mkdir()
        monkeypatch.chdir(home)
        sandboxes = Sandboxes("w", tmp_path)
        inner = sandboxes.path_for(job("1")) / "inner"
        inner.mkdir()
        os.chdir(inner)
        inner.rmdir()
        if not home_is_there:
            home.rmdir()
        sandboxes.remove(job("1"))
        assert Path.cwd() == (home if home_is_there else Path("/"))
        sandboxes.close()

    def test_what_cannot_be_removed_is_logged(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr("shutil.rmtree", lambda path, **options: None)
        monkeypatch.setattr(sandbox, "REMOVE", (str(tmp_path / "nosuch"),))
        sandboxes = Sandboxes("w", tmp_path)
        path = sandboxes.path_for(job("1"))
        sandboxes.remove(job("1"))
        assert f"the sandbox {path} could not be removed entirely" in caplog.text
        assert sandboxes.in_use == {}

    @pytest.mark.parametrize("is_wanted", [True, False])
    def test_only_a_folder_that_was_asked_for_keeps_a_worker_from_starting(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        is_wanted: bool,
    ) -> None:
        place = tmp_path / "file"
        place.write_text("")
        monkeypatch.setattr("tempfile.tempdir", str(place))
        environment: Any = PlainEnvironment("unix:///nowhere")
        options = WorkerOptions(sandbox=str(place) if is_wanted else None)
        worker = Worker(environment, options)
        if is_wanted:
            with pytest.raises(CannotStart, match=f"--sandbox: .*{place}") as caught:
                worker.prepare_sandboxes()
            assert caught.value.code == os.EX_CANTCREAT
        else:
            worker.prepare_sandboxes()
            assert "no job can have a sandbox" in caplog.text

    def test_no_place_for_one_is_an_error_of_the_job(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(OSError, match="file"):
            Sandboxes("w", tmp_path / "file").path_for(job("1"))

    def test_a_place_that_somebody_prepared_is_refused(self, tmp_path: Path) -> None:
        sandboxes = Sandboxes("w", tmp_path)
        (tmp_path / "theirs").mkdir()
        sandboxes.base.symlink_to(tmp_path / "theirs")
        with pytest.raises(PermissionError, match="not a directory of this user"):
            sandboxes.path_for(job("1"))
        assert list((tmp_path / "theirs").iterdir()) == []

    def test_a_lock_that_somebody_prepared_is_not_followed(
        self, tmp_path: Path
    ) -> None:
        sandboxes = Sandboxes("w", tmp_path)
        sandboxes.base.mkdir(mode=0o700)
        (sandboxes.base / f"w-{os.getpid()}.lock").symlink_to(tmp_path / "made")
        with pytest.raises(OSError, match="symbolic links"):
            sandboxes.path_for(job("1"))
        assert not (tmp_path / "made").exists()

    def test_an_open_place_is_closed(self, tmp_path: Path) -> None:
        sandboxes = Sandboxes("w", tmp_path)
        sandboxes.base.mkdir()
        sandboxes.base.chmod(0o777)
        sandboxes.path_for(job("1"))
        assert stat.S_IMODE(sandboxes.base.stat().st_mode) == 0o700
        sandboxes.close()

    def test_a_keepers_name_may_be_used(self, sandboxes: Sandboxes) -> None:
        sandboxes.owner = 12345
        assert sandboxes.path_for(job("1")).parent.name == "12345"


class TestOfWorkers:
    def test_what_a_dead_child_left_is_removed(self, sandboxes: Sandboxes) -> None:
        sandboxes.claim()
        child = os.fork()
        if child == 0:
            try:
                path = sandboxes.path_for(job("1"))
                (path / "folder").mkdir(mode=0)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        left = sandboxes.folder / str(child)
        assert left.is_dir()
        own = sandboxes.path_for(job("2"))
        sandboxes.sweep(child)
        # The place is free at once, whenever the rest follows.
        assert not left.exists()
        poll(lambda: len(list(sandboxes.base.iterdir())) == 2, what="all is removed")
        assert own.exists()

    def test_a_child_without_sandboxes_costs_nothing(
        self, sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "Popen", None)
            sandboxes.sweep(12345)
            sandboxes.claim()
            sandboxes.sweep(12345)
            sandboxes.sweep_dead()

    def test_who_removes_is_waited_for(
        self, sandboxes: Sandboxes, tmp_path: Path
    ) -> None:
        """Else it would stay in the list of processes."""
        sandboxes.owner = 12345
        sandboxes.path_for(job("1"))
        sandboxes.sweep(12345)

        def reaped() -> bool:
            sandboxes.reap()
            return not sandboxes._removals

        poll(reaped, what="the sweeper has been waited for")

    def test_what_a_dead_worker_left_is_removed(self, tmp_path: Path) -> None:
        victim = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(tmp_path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert victim.stdout is not None
            path = Path(victim.stdout.readline().strip())
            assert path.is_dir()
            other = Sandboxes("w", tmp_path)
            other.claim()
            other.sweep_dead()
            # It lives: nothing is swept, not even moved.
            assert path.is_dir()
        finally:
            victim.kill()
            victim.communicate()
        other.sweep_dead()
        assert not path.exists()
        poll(lambda: len(list(other.base.iterdir())) == 2, what="all is removed")
        assert other.folder.is_dir()
        other.close()

    def test_a_removal_that_was_cut_short_is_finished(
        self, sandboxes: Sandboxes
    ) -> None:
        sandboxes.claim()
        half = sandboxes.base / "doomed-0123"
        (half / "file").mkdir(parents=True)
        sandboxes.sweep_dead()
        gone(half)

    def test_a_worker_that_ends_leaves_nothing(self, tmp_path: Path) -> None:
        sandboxes = Sandboxes("w", tmp_path)
        path = sandboxes.path_for(job("1"))
        sandboxes.close()
        assert not path.exists()
        poll(lambda: not list(sandboxes.base.iterdir()), what="all is removed")
        # After it was started again in place, the same name is free.
        again = Sandboxes("w", tmp_path)
        again.claim()
        assert again.folder == sandboxes.folder
        again.close()

    def test_two_of_one_name_keep_apart(
        self, sandboxes: Sandboxes, tmp_path: Path
    ) -> None:
        """In two containers they may even have the same process id."""
        other = Sandboxes("w", tmp_path)
        paths = [each.path_for(job("1")) for each in (sandboxes, other)]
        assert sandboxes.folder != other.folder
        other.close()
        assert [path.exists() for path in paths] == [True, False]

    def test_without_a_place_there_is_nothing_to_sweep(self, tmp_path: Path) -> None:
        sandboxes = Sandboxes("w", tmp_path / "nowhere")
        sandboxes.sweep_dead()
        sandboxes.sweep(1)
        sandboxes.close()
        assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("pool", ["prefork", "fork"])
def test_a_job_that_kills_its_process(
    start_worker: Callable[..., WorkerProcess],
    put: Callable[..., str],
    ledger: Ledger,
    job_when: Callable[..., object],
    tmp_path: Path,
    pool: str,
) -> None:
    jid = put("fill_sandbox_and_die", ledger.path, retries=0)
    worker = start_worker(pool=pool, burst=True, sandbox=str(tmp_path / "s"))
    job_when(jid, "failed")
    worker.wait()
    paths = [Path(path) for path in ledger.starting_with("sandbox")]
    assert paths
    for path in paths:
        assert tmp_path in path.parents
        gone(path)
    base = next((tmp_path / "s").iterdir())
    poll(lambda: not list(base.iterdir()), what="all is removed")
