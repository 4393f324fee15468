"""The watcher of an embedded server: it repairs what crashes and removals leave."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from django_qless.servers import embedded
from tests.real_servers import poll
from tests.servers.users import (
    await_change,
    await_end,
    client_of,
    client_socket,
)


def test_a_server_that_was_killed_comes_back_with_its_data(directory, user):
    user()
    client_of(directory).set("kept", "1")
    before = embedded.status(directory)

    os.kill(before.pid, signal.SIGKILL)

    after = await_change(directory, before)
    assert after.socket == before.socket
    assert after.watcher_pid == before.watcher_pid
    assert client_of(directory).get("kept") == b"1"


def test_a_server_whose_watcher_was_killed_is_adopted(directory, user):
    first = user()
    before = embedded.status(directory)
    os.kill(before.watcher_pid, signal.SIGKILL)
    poll(lambda: not embedded.status(directory).watcher_pid, what="no watcher")
    assert client_of(directory).ping()

    second = user()

    after = embedded.status(directory)
    assert (after.pid, after.socket) == (before.pid, before.socket)
    assert after.watcher_pid not in {None, before.watcher_pid}
    first.end()
    second.end()
    await_end(directory)


def test_stop_ends_a_server_whose_watcher_was_killed(directory, user):
    user()
    os.kill(embedded.status(directory).watcher_pid, signal.SIGKILL)
    poll(lambda: not embedded.status(directory).watcher_pid, what="no watcher")

    socket = client_socket(directory)
    assert embedded.stop(directory)
    assert not embedded.status(directory).running
    assert not socket.parent.exists()


def test_a_hung_server_without_a_watcher_is_replaced_without_loss(directory, user):
    user()
    client_of(directory).set("kept", "1")
    before = embedded.status(directory)
    os.kill(before.watcher_pid, signal.SIGKILL)
    poll(lambda: not embedded.status(directory).watcher_pid, what="no watcher")
    os.kill(before.pid, signal.SIGSTOP)

    user()

    assert embedded.status(directory).pid != before.pid
    assert client_of(directory).get("kept") == b"1"


def test_what_a_crash_of_everything_leaves_is_healed(directory, user):
    first = user()
    client_of(directory).set("kept", "1")
    before = embedded.status(directory)
    os.kill(before.watcher_pid, signal.SIGKILL)
    os.kill(before.pid, signal.SIGKILL)
    first.end(signal.SIGKILL)
    poll(lambda: not embedded.status(directory).running, what="the server is dead")
    assert Path(before.socket).exists()

    user()

    after = embedded.status(directory)
    assert after.socket == before.socket
    assert after.pid != before.pid
    assert client_of(directory).get("kept") == b"1"


def test_a_folder_of_its_user_is_closed_to_others(tmp_path):
    folder = tmp_path / "sockets"
    folder.mkdir(0o755)
    embedded.watcher.make_private(str(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(embedded.watcher.CannotStartError, match="is not a folder of"):
        embedded.watcher.make_private(str(tmp_path / "link"))


def test_process_ids_that_belong_to_others_by_now_are_left_alone(directory, user):
    directory.mkdir()
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        for name in ("server.lock", "watcher.lock"):
            (directory / name).write_text(f"{bystander.pid}\n/tmp/no-socket\n")
        (directory / "start.lock").touch()

        assert not embedded.status(directory).running
        assert not embedded.stop(directory)
        user()

        assert embedded.status(directory).pid != bystander.pid
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_removed_folder_ends_its_server_and_a_new_one_is_apart(directory, user):
    stays = user()
    client_of(directory).set("of the past", "1")
    before = embedded.status(directory)
    shutil.rmtree(directory)

    again = stays.run("say(ensure())")

    assert again != before.socket
    assert client_of(directory).dbsize() == 0
    poll(lambda: not Path(before.socket).exists(), what="the old server has ended")
    assert Path(again).exists()


def test_a_removed_socket_comes_back(directory, user):
    user()
    client_of(directory).set("kept", "1")
    before = embedded.status(directory)

    Path(before.socket).unlink()

    after = await_change(directory, before)
    assert after.socket == before.socket
    assert client_of(directory).get("kept") == b"1"
