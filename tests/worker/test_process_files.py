"""Pidfile and health file, in folders where others may plant symbolic links."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import pytest

from django_qless.worker.process_files import (
    HealthFile,
    Pidfile,
    replace_file,
)
from django_qless.worker.server_checks import CannotStart


class TestPidfile:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "pid"

    def test_it_is_there_as_long_as_its_process(self, path):
        pidfile = Pidfile(str(path))
        pidfile.write()
        assert path.read_text() == f"{os.getpid()}\n"
        pidfile.remove()
        assert list(path.parent.iterdir()) == []

    def test_our_own_is_written_again(self, path):
        Pidfile(str(path)).write()
        Pidfile(str(path)).write()
        assert path.read_text() == f"{os.getpid()}\n"

    def test_that_of_a_running_process_is_respected(self, path, other):
        path.write_text(f"{other.pid}\n")
        pidfile = Pidfile(str(path))
        with pytest.raises(
            CannotStart, match=f"process {other.pid}.*--pidfile"
        ) as error:
            pidfile.write()
        assert error.value.code == os.EX_CANTCREAT
        pidfile.remove()
        assert path.read_text() == f"{other.pid}\n"

    def test_that_of_a_process_that_is_gone_is_replaced(self, path, other):
        path.write_text(f"{other.pid}\n")
        other.kill()
        other.wait()
        Pidfile(str(path)).write()
        assert path.read_text() == f"{os.getpid()}\n"

    def test_an_id_that_was_given_again_does_not_count(self, path, other):
        path.write_text(f"{other.pid}\n")
        before = time.time() - 1000
        os.utime(path, (before, before))
        Pidfile(str(path)).write()
        assert path.read_text() == f"{os.getpid()}\n"

    @pytest.mark.parametrize("text", ["", "garbage", "\0", "-5", "0"])
    def test_garbage_is_replaced(self, path, text):
        path.write_text(text)
        Pidfile(str(path)).write()
        assert path.read_text() == f"{os.getpid()}\n"

    def test_a_place_where_it_cannot_be_is_named(self, tmp_path):
        pidfile = Pidfile(str(tmp_path / "no" / "pid"))
        with pytest.raises(CannotStart, match=r"no/pid.*folder that exists"):
            pidfile.write()


@pytest.fixture
def victim(tmp_path):
    """A file of somebody else, which must stay as it is."""
    file = tmp_path / "victim"
    file.write_text("precious")
    return file


def write_both(folder):
    HealthFile(str(folder / "health"), "w1").create()
    Pidfile(str(folder / "pid")).write()


def test_a_link_under_the_name_that_can_be_guessed_is_left_alone(tmp_path, victim):
    for name in ("health", "pid"):
        (tmp_path / f"{name}.{os.getpid()}").symlink_to(victim)
    write_both(tmp_path)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "health").is_symlink()
    assert not (tmp_path / "pid").is_symlink()


def test_a_link_in_the_files_place_is_replaced_not_followed(tmp_path, victim):
    for name in ("health", "pid"):
        (tmp_path / name).symlink_to(victim)
    write_both(tmp_path)
    assert victim.read_text() == "precious"
    assert Pidfile(str(tmp_path / "pid")).read() == os.getpid()


def test_a_link_under_the_very_name_is_an_error(tmp_path, victim, monkeypatch):
    monkeypatch.setattr(secrets, "token_hex", lambda size: "guessed")
    (tmp_path / "file.guessed").symlink_to(victim)
    with pytest.raises(FileExistsError):
        replace_file(tmp_path / "file", "text")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "file").exists()


def test_nothing_is_left_behind(tmp_path):
    replace_file(tmp_path / "file", "one\n")
    replace_file(tmp_path / "file", "two\n")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "two\n"
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "folder", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_of_errors_in_a_row_the_first_is_logged(tmp_path, caplog):
    folder = tmp_path / "folder"
    file = HealthFile(str(folder / "health"), "w1")
    for times in (1, 2):
        for turned in (1.0, 2.0):
            file.write(turned, 0.0, "running", 0)
            assert caplog.text.count("health file not written") == times
        folder.mkdir()
        file.write(3.0, 0.0, "running", 0)
        (folder / "health").unlink()
        folder.rmdir()
