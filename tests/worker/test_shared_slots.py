"""The namespaces of an alias share the slots of their worker: who runs, who waits."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from django_qless.core import Client
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools.prefork import PreforkChild
from django_qless.worker.pools.shared_state import SharedState
from django_qless.worker.shared_slots import (
    FIGURE,
    FIGURES,
    HELD,
    LIMIT,
    PID,
    WANTED,
    SharedSlots,
)
from django_qless.worker.worker import Worker
from tests.real_servers import Server, poll
from tests.worker.plain import PlainEnvironment
from tests.worker.processes import children_of, descendants
from tests.worker.test_namespaces import DEFAULT, MAIL, REPORTS, Namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worker.ledger import Gate, Ledger
    from tests.worker.processes import ForkedProcess

    Command = ForkedProcess

QUEUES = {DEFAULT: "q", MAIL: "mail", REPORTS: "report.x"}
POOLS = ["prefork", "fork", "threads", "coroutines"]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the slots of other processes are read from /proc"
)


def test_a_signal_that_finds_its_pipe_full_says_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The child will wake anyway; Python would print a warning for each."""
    child = cast("PreforkChild", SimpleNamespace())
    outer = signal.set_wakeup_fd(-1)
    handler = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        PreforkChild.make_signal_pipe(child)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(child.signal_writer, b"x" * 4096)
        os.kill(os.getpid(), signal.SIGUSR2)
    finally:
        signal.set_wakeup_fd(outer)
        signal.signal(signal.SIGUSR2, handler)
    os.close(child.signal_reader)
    os.close(child.signal_writer)
    assert capfd.readouterr().err == ""


class Project(Namespaces):
    """A project with three namespaces, and the slots of its worker."""

    def put_in(self, name: str, *jobs: str, klass: str = "greet") -> list[str]:
        """Put jobs of these names into a namespace."""
        return [self.put(name, klass, job, queue=QUEUES[name]) for job in jobs]

    def slots(self, process: Command) -> SharedSlots:
        """Return the slots that the processes of a command share."""

        def look() -> SharedSlots | None:
            for pid in (process.pid, *descendants(process.pid)):
                for file in Path(f"/proc/{pid}/fd").iterdir():
                    if "qless-slots" in os.readlink(file):
                        return SharedSlots(os.open(file, os.O_RDWR))
            return None

        return poll(look, what=f"it has slots: {self.output}")

    def wait_for_line(self, process: Command, *numbers: int) -> None:
        """Return when the namespaces of these numbers wait for slots.

        So do others after a while: idle children look whether there is a job for them.
        """
        slots = self.slots(process)
        wanted = set(numbers)
        poll(
            lambda: slots.waiting() >= wanted,
            what=f"{wanted} wait: {self.output}",
        )


@pytest.fixture
def project(
    tmp_path: Path, server: Server, ledger: Ledger, gate: Gate
) -> Iterator[Project]:
    with Server() as there:
        project = Project(tmp_path, server, there, ledger, gate)
        clients = {
            DEFAULT: Client(server.client()),
            MAIL: Client(server.client(), "mail:"),
            REPORTS: Client(there.client(), "ql-r:"),
        }
        # No slot comes back because a call is given up.
        patient = f"{there.url}{'&' if '?' in there.url else '?'}socket_timeout=200"
        namespaces = {
            "": "ql:",
            "mail": "mail:",
            "report.*": {"PREFIX": "ql-r:", "LOCATION": patient},
        }
        project.use(clients, LOCATION=server.url, NAMESPACES=namespaces)
        yield project
        project.close()


def held(slots: SharedSlots) -> int:
    """Return how many slots are held."""
    return sum(slots.ints[at + HELD] for at in slots.children())


def stop(process: Command, project: Project) -> None:
    """Stop a command in good order."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, project.output


def greeted(ledger: Ledger) -> list[str]:
    """Return what was greeted, in this order."""
    return ledger.starting_with("greet")


def served(slots: SharedSlots, *namespaces: int) -> int:
    """Return which of these is next, having counted its turn."""
    chosen = slots.next(namespaces)
    slots.count_turn(chosen)
    return chosen


class TestChoice:
    """Who is next: by the place in the command, in turn, by weights."""

    def test_the_first_place_comes_first(self) -> None:
        slots = SharedSlots.create(1, [2, 0, 1], "ordered")
        assert [served(slots, 0, 1, 2) for _ in range(3)] == [1, 1, 1]
        assert served(slots, 0, 2) == 2

    @pytest.mark.parametrize("reserver", ["round-robin", "shuffled", "random"])
    def test_they_take_turns(self, reserver: str) -> None:
        slots = SharedSlots.create(1, [2, 0, 1], reserver)
        assert [served(slots, 0, 1, 2) for _ in range(6)] == [0, 1, 2, 0, 1, 2]
        # Who has not had one for the longest time comes first, when it is there again.
        assert [served(slots, 0, 1) for _ in range(4)] == [0, 1, 0, 1]
        assert served(slots, 0, 1, 2) == 2

    def test_partitions_have_one_place_and_take_turns(self) -> None:
        slots = SharedSlots.create(1, [0, 0, 1], "ordered")
        assert [served(slots, 0, 1, 2) for _ in range(4)] == [0, 1, 0, 1]

    @pytest.mark.parametrize(
        "reserver", ["lottery", "plain-lottery", "reduced-lottery"]
    )
    def test_they_are_drawn_by_their_weights(self, reserver: str) -> None:
        slots = SharedSlots.create(1, [0, 1, 2], reserver)
        for namespace, lots in enumerate((3.0, 1.0, 0.0)):
            slots.floats[slots.record(namespace) + FIGURE] = lots
        drawn = [served(slots, 0, 1, 2) for _ in range(1000)]
        assert 650 < drawn.count(0) < 850
        assert drawn.count(2) == 0
        assert served(slots, 2) == 2


class Queues:
    """Known queues: a has the greater weight, b the longer lag."""

    def weight(self, queue: str) -> float:
        return {"a": 3.0, "b": 1.0}[queue]

    def lag(self, queue: str) -> float:
        return {"a": 2.0, "b": 7.0}[queue]


@pytest.mark.parametrize(
    ("reserver", "figure"),
    [
        ("highest-priority-first", -3.0),
        ("highest-priority-lottery", -3.0),
        ("lottery", 4.0),
        ("reduced-lottery", 4.0),
    ],
)
def test_a_namespace_is_judged_by_its_queues(reserver: str, figure: float) -> None:
    known: Any = Queues()
    assert FIGURES[reserver](known, ["a", "b"]) == figure


def test_the_longest_lag_comes_first_however_long_ago_it_was_seen() -> None:
    known: Any = Queues()
    seen = FIGURES["lag"](known, ["a", "b"])
    assert seen == pytest.approx(time.monotonic() - 7, abs=1)
    assert seen < FIGURES["lag"](known, ["a"])
    # As much later there is nothing that has waited for longer.
    assert seen < FIGURES["lag"](known, [])


def test_a_namespace_without_queues_comes_after_those_whose_jobs_wait() -> None:
    known: Any = Queues()
    now = time.monotonic()
    assert FIGURES["lag"](known, ["a"]) < now <= FIGURES["lag"](known, [])
    assert FIGURES["highest-priority-first"](known, []) == 0.0
    assert FIGURES["lottery"](known, []) == 0.0


def test_there_is_room_for_a_number_of_children() -> None:
    slots = SharedSlots.create(1, [0], "ordered")
    with slots.changing():
        first = slots.enter()
        assert slots.ints[first + PID] == os.getpid()
        assert list(slots.children()) == [first]
    slots.ints[first + WANTED] = 1
    assert slots.is_wanted
    slots.ints[first + WANTED] = 0
    assert not slots.is_wanted


def test_more_children_than_there_is_room_for_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The locks of those that live are taken; a lock of this process would not be."""
    slots = SharedSlots.create(1, [0], "ordered")
    monkeypatch.setattr(slots, "_lock", lambda at: False)
    with slots.changing(), pytest.raises(RuntimeError, match="room"):
        slots.enter()


def test_without_files_in_memory_the_slots_are_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    slots = SharedSlots.create(3, [0, 1], "ordered")
    assert SharedSlots(slots.file, 1).ints[LIMIT] == 3


def test_programs_that_a_restarted_worker_starts_do_not_have_its_slots() -> None:
    file = SharedSlots.create(1, [0], "ordered").file
    os.set_inheritable(file, True)  # for the restart in place
    SharedSlots(file)
    assert not os.get_inheritable(file)


def test_signals_do_not_wake_a_child_that_shares_no_slots_by_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The descriptor is left to the jobs' own code."""
    monkeypatch.setattr(os, "register_at_fork", lambda **calls: None)
    environment: Any = PlainEnvironment("unix:///nowhere")
    worker = Worker(environment, WorkerOptions(queues=("q",)))
    child = PreforkChild(worker, SharedState(), os.pipe()[1])
    before = {
        number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)
    }
    interval = sys.getswitchinterval()
    outer = signal.set_wakeup_fd(-1)
    try:
        child.prepare()
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.set_wakeup_fd(outer)
        sys.setswitchinterval(interval)
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("pool", POOLS)
def test_never_more_than_the_concurrency_at_once(
    project: Project, ledger: Ledger, gate: Gate, pool: str
) -> None:
    klass = "stay_awake" if pool == "coroutines" else "stay"
    for name in QUEUES:
        project.put_in(name, *(f"{name}-{number}" for number in range(6)), klass=klass)
    given = ("--pool", pool, "--concurrency", "4", "--reserver", "round-robin")
    process = project.start(*given, "--name", "w")
    ledger.wait_until(4)
    slots = project.slots(process)
    # All but those that may have all slots.
    poll(lambda: len(slots.waiting()) >= 2, what=f"two wait: {project.output}")
    running = sum(
        client.queue_counts(QUEUES[name]).running
        for name, client in project.clients.items()
    )
    assert running == 4
    gate.open()
    lines = ledger.wait_until(36)
    steps = [1 if line.startswith("running") else -1 for line in lines]
    assert max(itertools.accumulate(steps)) == 4, lines
    stop(process, project)


def test_partitions_of_a_queue_share_the_concurrency(
    project: Project, server: Server, ledger: Ledger, gate: Gate
) -> None:
    clients = {
        f"default/q:{index}": Client(server.client(), f"ql-q-{index}:")
        for index in range(3)
    }
    project.use(clients, LOCATION=server.url, QUEUES={"q": {"partitions": 3}})
    for name in clients:
        for number in range(2):
            project.put(name, "stay", f"{name}-{number}")
    process = project.start("q", "--concurrency", "2", "--name", "w")
    ledger.wait_until(2)
    slots = project.slots(process)
    poll(lambda: len(slots.waiting()) >= 2, what=f"two wait: {project.output}")
    running = [client.queue_counts("q").running for client in clients.values()]
    assert sum(running) == 2
    gate.open()
    ledger.wait_until(12)
    stop(process, project)


@pytest.mark.parametrize("pool", POOLS)
def test_one_namespace_has_all_slots_when_it_alone_has_work(
    project: Project, ledger: Ledger, gate: Gate, pool: str
) -> None:
    klass = "stay_awake" if pool == "coroutines" else "stay"
    process = project.start("--pool", pool, "--concurrency", "4", "--name", "w")
    project.put_in(REPORTS, *"abcde", klass=klass)
    ledger.wait_until(4)
    slots = project.slots(process)
    assert held(slots) == 4
    gate.open()
    ledger.wait_until(10)
    # And gives them back.
    poll(lambda: held(slots) == 0, what=f"no slot is held: {project.output}")
    gate.close()
    project.put_in(MAIL, *"fghi", klass=klass)
    ledger.wait_until(14)
    gate.open()
    stop(process, project)


@pytest.mark.parametrize("pool", POOLS)
def test_ordered_has_the_second_namespace_wait_while_the_first_has_jobs(
    project: Project, ledger: Ledger, gate: Gate, pool: str
) -> None:
    klass = "stay_awake" if pool == "coroutines" else "stay"
    process = project.start("mail", "report.x", "--pool", pool)
    project.put_in(REPORTS, "first", klass=klass)
    ledger.wait_until(1)
    project.put_in(REPORTS, *(f"report-{number}" for number in range(5)))
    project.put_in(MAIL, *(f"mail-{number}" for number in range(5)))
    project.wait_for_line(process, 0)
    gate.open()
    ledger.wait_until(12)
    kinds = [name.partition("-")[0] for name in greeted(ledger)]
    assert kinds == ["mail"] * 5 + ["report"] * 5
    stop(process, project)


def test_the_namespace_of_the_greatest_weight_comes_first(
    project: Project, ledger: Ledger, gate: Gate
) -> None:
    project.clients[MAIL].config_set("mail-weight", 3)
    zero = project.put_in(MAIL, "zero")  # so that the queue is known from the start
    process = project.start("report.x", "mail", "--reserver", "highest-priority-first")
    project.complete(MAIL, *zero)
    project.put_in(REPORTS, "first", klass="stay")
    ledger.wait_until(2)
    project.put_in(REPORTS, *(f"report-{number}" for number in range(5)))
    project.put_in(MAIL, *(f"mail-{number}" for number in range(5)))
    project.wait_for_line(process, 0)
    gate.open()
    ledger.wait_until(13)
    kinds = [name.partition("-")[0] for name in greeted(ledger)[1:]]
    assert kinds == ["mail"] * 5 + ["report"] * 5
    stop(process, project)


@pytest.mark.parametrize("pool", POOLS)
def test_round_robin_takes_from_each_in_turn(
    project: Project, ledger: Ledger, gate: Gate, pool: str
) -> None:
    klass = "stay_awake" if pool == "coroutines" else "stay"
    process = project.start("--reserver", "round-robin", "--batch", "1", "--pool", pool)
    project.put_in(REPORTS, "first", klass=klass)
    ledger.wait_until(1)
    for name in (REPORTS, DEFAULT, MAIL):
        project.put_in(name, *(f"{name}-{number}" for number in range(5)))
    project.wait_for_line(process, 0, 1)
    gate.open()
    ledger.wait_until(17)
    names = [name.partition("-")[0] for name in greeted(ledger)]
    assert sorted(names[:3]) == sorted(QUEUES)
    assert names[2] == REPORTS
    # On a busy machine one may be late to wait for its turn, and miss it.
    for n in range(3, 13):
        turns = [names[:n].count(name) for name in QUEUES]
        assert max(turns) - min(turns) <= 2, names
    stop(process, project)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_lottery_draws_by_the_weights_of_the_queues(
    project: Project, ledger: Ledger, gate: Gate, pool: str
) -> None:
    project.clients[MAIL].config_set("mail-weight", 3)
    options = ("--reserver", "lottery", "--batch", "1", "--pool", pool)
    process = project.start("mail", "report.x", *options)
    project.put_in(REPORTS, "first", klass="stay")
    ledger.wait_until(1)
    project.put_in(REPORTS, *(f"report-{number}" for number in range(200)))
    project.put_in(MAIL, *(f"mail-{number}" for number in range(200)))
    project.wait_for_line(process, 0)
    gate.open()
    ledger.wait_until(202)
    kinds = [name.partition("-")[0] for name in greeted(ledger)[:160]]
    # 120, with a standard deviation of 5.5.
    assert 90 < kinds.count("mail") < 150
    stop(process, project)


@pytest.mark.parametrize("pool", POOLS)
def test_a_child_that_is_killed_gives_its_slot_back(
    project: Project, ledger: Ledger, pool: str
) -> None:
    klass = "stay_awake" if pool == "coroutines" else "stay"
    process = project.start("report.x", "mail", "--pool", pool)
    project.put_in(MAIL, "first", klass=klass)
    [line] = ledger.wait_until(1)
    project.put_in(REPORTS, "second")
    project.wait_for_line(process, 1)
    os.kill(int(line.split()[2]), signal.SIGKILL)
    ledger.wait_for("greet second")
    process.kill()


def test_the_fork_pools_child_that_is_killed_gives_its_slot_back(
    project: Project, ledger: Ledger
) -> None:
    process = project.start("report.x", "mail", "--pool", "fork")
    project.put_in(MAIL, "first", klass="stay")
    [line] = ledger.wait_until(1)
    project.put_in(REPORTS, "second")
    project.wait_for_line(process, 1)
    server = parent_of(int(line.split()[2]))
    os.kill(parent_of(server), signal.SIGKILL)
    ledger.wait_for("greet second")
    process.kill()


def test_a_worker_that_is_killed_gives_its_slots_back(
    project: Project, ledger: Ledger
) -> None:
    """In a burst the others go on; else they are stopped."""
    project.put_in(REPORTS, "first", klass="stay")
    project.put_in(MAIL, "second", klass="stay")
    process = project.start("report.x", "mail", "--burst", "--concurrency", "2")
    pids = {line.split()[1]: int(line.split()[2]) for line in ledger.wait_until(2)}
    project.put_in(REPORTS, "third")
    project.wait_for_line(process, 1)
    os.kill(parent_of(pids["second"]), signal.SIGKILL)
    ledger.wait_for("greet third")
    process.kill()


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


@pytest.mark.parametrize("loss", ["KILL", "STOP"])
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_the_slots_of_a_server_that_is_away_are_for_others(
    project: Project, ledger: Ledger, gate: Gate, pool: str, loss: str
) -> None:
    process = project.start("report.x", "mail", "--pool", pool, "--concurrency", "2")
    project.put_in(REPORTS, "a", "b", klass="stay")
    ledger.wait_until(2)
    project.put_in(MAIL, "c", "d", klass="stay")
    project.wait_for_line(process, 0)
    if loss == "KILL":
        project.away.kill()
    else:
        os.kill(project.away.pid, signal.SIGSTOP)
    try:
        gate.open()
        ledger.wait_until(8)
        gate.close()
        project.put_in(MAIL, "e", "f", klass="stay")
        ledger.wait_until(10)
        gate.open()
        ledger.wait_until(12)
    finally:
        if loss == "STOP":
            os.kill(project.away.pid, signal.SIGCONT)
    if loss == "KILL":
        project.away.start()
    project.complete(REPORTS, *project.put_in(REPORTS, "g"))
    process.kill()


@pytest.mark.parametrize("pool", POOLS)
def test_idle_workers_hold_no_slot_and_a_job_is_taken(
    project: Project, ledger: Ledger, pool: str
) -> None:
    process = project.start("--pool", pool, "--concurrency", "2", "--name", "w")
    for name in QUEUES:
        project.complete(name, *project.put_in(name, name))
    slots = project.slots(process)
    poll(lambda: held(slots) == 0, what="no slot is held")
    assert slots.waiting() == set()
    workers = children_of(process.pid)
    children = [child for worker in workers for child in children_of(worker)]
    before = [seconds_used(child) for child in children]
    # A child that polled would use the processor meanwhile.
    time.sleep(1.0)
    assert [seconds_used(child) for child in children] == pytest.approx(
        before, abs=0.05
    )
    assert held(slots) == 0
    stop(process, project)


@pytest.mark.parametrize("pool", POOLS)
def test_a_job_that_wakes_a_host_without_a_slot_wakes_another_host(
    project: Project, server: Server, ledger: Ledger, gate: Gate, pool: str
) -> None:
    klass = "stay_awake" if pool == "coroutines" else "stay"
    process = project.start("--pool", pool, "--concurrency", "1", "--name", "w")
    mail, redis = project.clients[MAIL], server.client()
    project.complete(MAIL, *project.put_in(MAIL, "a"))
    poll(
        lambda: redis.exists("mail:idle:mail"),
        what=f"it is idle at mail: {project.output}",
    )
    project.put_in(DEFAULT, "b", klass=klass)
    ledger.wait_until(2)
    known = mail.settle("elsewhere", [], count=1, queues=["mail"], wait=60)
    assert not known.jobs
    project.put_in(MAIL, "c")
    assert redis.blpop(known.wait_keys, 30), "it was not woken"
    gate.open()
    stop(process, project)


def seconds_used(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("pool", POOLS)
def test_a_stop_ends_the_wait_for_a_slot(
    project: Project, ledger: Ledger, gate: Gate, pool: str
) -> None:
    klass = "stay_awake" if pool == "coroutines" else "stay"
    given = ("--pool", pool, "--name", "w", "--shutdown-timeout", "60")
    process = project.start("report.x", "mail", *given)
    project.put_in(REPORTS, "first", klass=klass)
    ledger.wait_until(1)
    [left] = project.put_in(MAIL, "second")
    project.wait_for_line(process, 0)
    process.send_signal(signal.SIGTERM)
    project.wait_for_log(f"stopped worker=w-{MAIL}")
    gate.open()
    assert process.wait(60) == 0, project.output
    assert project.state(MAIL, left) == "waiting"


def test_the_slots_are_the_same_after_a_restart_in_place(
    project: Project, ledger: Ledger, gate: Gate
) -> None:
    process = project.start("report.x", "mail", "--name", "w")
    for name in (MAIL, REPORTS):
        project.wait_for_log(f"started worker=w-{name} ")
    process.send_signal(signal.SIGHUP)
    for name in (MAIL, REPORTS):
        project.wait_for_log(f"started worker=w-{name} ", times=2)
    project.put_in(MAIL, "first", klass="stay")
    ledger.wait_until(1)
    project.put_in(REPORTS, "second", klass="stay")
    project.wait_for_line(process, 1)
    assert len(ledger.all()) == 1
    gate.open()
    ledger.wait_until(4)
    stop(process, project)
