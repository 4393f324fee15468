"""Health file and pidfile lie in folders where others may plant symbolic links."""

from __future__ import annotations

import os
import secrets

import pytest

from django_qless.worker.atomic_file import replace_file
from django_qless.worker.health import HealthFile
from django_qless.worker.pidfile import Pidfile


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
    assert Pidfile(str(tmp_path / "pid")).written() == os.getpid()


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
