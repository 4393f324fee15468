"""The health file, in folders where others may plant symbolic links."""

from __future__ import annotations

import os
import secrets

import pytest

from django_qless.worker.process_files import (
    HealthFile,
    replace_file,
)


@pytest.fixture
def victim(tmp_path):
    """A file of somebody else, which must stay as it is."""
    file = tmp_path / "victim"
    file.write_text("precious")
    return file


def write(folder):
    HealthFile(str(folder / "health"), "w1").create()


def test_a_link_under_the_name_that_can_be_guessed_is_left_alone(tmp_path, victim):
    (tmp_path / f"health.{os.getpid()}").symlink_to(victim)
    write(tmp_path)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "health").is_symlink()


def test_a_link_in_the_files_place_is_replaced_not_followed(tmp_path, victim):
    (tmp_path / "health").symlink_to(victim)
    write(tmp_path)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "health").is_symlink()


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
