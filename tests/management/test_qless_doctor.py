"""`manage.py qless_doctor`: what it finds, and what it does where it may not look."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.core import checks
from django.core.management import call_command
from django.test import override_settings

from django_qless import queues
from django_qless.management import server_findings
from django_qless.schedules.declared import sync_schedules
from django_qless.testing import clock
from django_qless.worker.ticker import due_ticks
from tests.jobs_app.jobs import add, failing, whoami
from tests.management.commands import doctor_findings, doctor_words, run
from tests.permissions import set_user, url_of
from tests.real_servers import Server
from tests.schedules.declaring import declaring


def cleaned() -> str:
    output = io.StringIO()
    with contextlib.suppress(SystemExit):
        call_command("qless_doctor", "--clean", stdout=output)
    return output.getvalue()


def test_what_it_looks_at(qless) -> None:
    qless.beat("w1", '{"queues": ["*"], "exclude": []}', [])
    told = doctor_words()
    assert "fine server" in told
    assert "fine clock" in told
    assert "workers alive: 1" in told


def test_of_the_system_checks_those_of_this_package(
    qless, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [
        checks.Warning("other", id="models.W042"),
        checks.Warning("doubtful", hint="Think.", id="django_qless.W001"),
        checks.Error("wrong", id="django_qless.E001"),
    ]
    monkeypatch.setattr(checks, "run_checks", lambda **options: messages)
    expected = [
        ("hint", "settings", "doubtful Think."),
        ("PROBLEM", "settings", "wrong"),
    ]
    assert [each for each in doctor_findings() if each[1] == "settings"] == expected
    del messages[1:]
    assert "fine settings" in doctor_words()


def test_a_format_that_it_does_not_read(qless, redis_client) -> None:
    add.delay(1)
    assert "fine format the namespace has format 2" in doctor_words()
    redis_client.hset("ql:meta", "format", "3")
    found = doctor_findings()
    assert [each for each in found if each[0] == "PROBLEM"] == found[-1:]
    assert found[-1][1] == "format"
    assert "stores format 3" in found[-1][2]
    assert "drain it" in found[-1][2]


def test_clock_set_back_by_hours_names_what_lasts_longer(qless, redis_client) -> None:
    """A namespace whose clock was five hours ahead: jobs go on, and remedies help."""
    ahead = clock.now("default") + 5 * 3600
    with declaring() as declare, clock.travel_to("default", ahead):
        declare(whoami.name, cron="0 * * * *", timezone="UTC")
        sync_schedules("default")
        [tick] = [due_ticks(due, ahead) for due in qless.schedule_due("w").schedules]
        qless.schedule_tick([*tick])
        locked, delayed = add.delay(1), add.using(delay=600).delay(2)
        assert [job.jid for job in qless.settle("w", [], 1, ["default"]).jobs] == [
            locked.jid
        ]
    redis_client.hset("ql:meta", "clock", f"{ahead:.6f}")
    assert "set back" not in doctor_words()

    new = add.delay(3)
    [job] = qless.settle("w", [], 1, ["default"]).jobs
    qless.complete(job.jid, job.token, "default", job.data)
    assert new.refresh().state == "complete"
    assert qless.meta()["skews"] == "1"

    found = "\n".join(text for _, about, text in doctor_findings() if about == "clock")
    assert f"job {locked.jid} in default, ends in 5 h" in found
    assert f"{delayed.jid} in default, is due in 5 h" in found
    assert f"{whoami.name}, is in 5 h" in found or f"{whoami.name}, is in 6 h" in found
    assert f"`qless_jobs move default {delayed.jid}`" in found
    assert f"`qless_recurring reset {whoami.name}`" in found

    qless.timeout(locked.jid)
    run("qless_jobs", "move", "default", delayed.jid)
    with declaring() as declare:
        declare(whoami.name, cron="0 * * * *", timezone="UTC")
        run("qless_recurring", "reset", whoami.name)
    taken = qless.settle("w", [], 2, ["default"]).jobs
    assert {job.jid for job in taken} == {locked.jid, delayed.jid}
    [due] = qless.schedule_due("w").schedules
    [tick] = due_ticks(due, clock.now("default"))
    assert tick.next <= clock.now("default") + 3600


@pytest.mark.parametrize(
    ("ahead", "skews", "levels"),
    [
        (5.0, 0, ["fine"]),
        (5.1, 0, ["hint"]),
        (-5.1, 0, ["hint"]),
        (5.1, 1, ["hint", "hint"]),
    ],
)
def test_a_clock_that_differs(
    ahead: float, skews: int, levels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_findings, "time", SimpleNamespace(time=lambda: 1000.0))
    client: Any = SimpleNamespace(
        meta=lambda: {"now": 1000 + ahead, "skews": skews},
        queues=list,
        schedule_list=lambda first, count: (0, []),
    )
    found = list(server_findings.of_clock(client))
    assert [each.level for each in found] == levels
    assert ("differ by 5.1 s" in found[0].text) == (levels[0] == "hint")


def test_replicas() -> None:
    client: Any = SimpleNamespace(slot_map=None, asks_sentinels=False, replication=None)
    info = {
        "connected_slaves": 2,
        "master_repl_offset": 1500,
        "slave0": "ip=10.0.0.1,port=6379,state=online,offset=400,lag=1",
        "slave1": "ip=10.0.0.2,port=6380,state=wait_bgsave,offset=1501,lag=0",
    }
    assert list(server_findings._replication(client, info)) == [
        ("fine", "replicas", "10.0.0.1:6379 is online, 1,100 bytes and 1 s behind"),
        ("hint", "replicas", "10.0.0.2:6380 is wait_bgsave, 0 bytes and 0 s behind"),
    ]


def test_workers_that_are_silent(qless) -> None:
    add.delay(1)
    for name in ("w1", "w2"):
        qless.beat(name, "{}", [])
    assert qless.settle("w1", [], 1, ["default"]).jobs
    with clock.travel_to("default", clock.now("default") + 3600):
        found = doctor_findings()
    assert [each for each in found if each[1] == "workers"] == [
        ("hint", "workers", "w1 has been silent for 1 h and holds 1 job"),
        ("hint", "workers", "w2 has been silent for 1 h"),
    ]


def test_a_queue_that_nobody_serves(qless) -> None:
    qless.beat("w1", '{"queues": ["mail-*"], "exclude": ["mail-2"]}', [])
    for queue in ("mail-1", "mail-2"):
        add.using(queue=queue).delay(1)
    told = doctor_words()
    assert "no worker serves mail-2, with 1 job, the oldest" in told
    assert "serves mail-1" not in told
    queues["mail-2"].pause()
    assert "mail-2 is paused, with 1 job" in doctor_words()


def test_jobs_of_a_name_that_nobody_knows(qless) -> None:
    qless.put("", "default", "a", "gone.job", "{}")
    assert "jobs named 'gone.job' are waiting" in doctor_words()


def test_libraries_of_other_versions(qless, redis_client) -> None:
    # Other tests have left theirs.
    redis_client.function_flush()
    redis_client.function_load(
        "#!lua name=qless_0123456789ab\n"
        "redis.register_function('qless_0123456789ab_read', "
        "function() return 1 end)"
    )
    assert "libraries of other versions (1)" in doctor_words()
    assert "removed: qless_0123456789ab" in cleaned()
    assert "of other versions" not in doctor_words()


@pytest.mark.parametrize("role", ["operator", "worker"])
def test_what_its_user_may_not_do_is_not_checked(server: Server, role: str) -> None:
    location = {"LOCATION": url_of(server, role)}
    with override_settings(QLESS={"default": location}):
        told = doctor_words("--clean")
    unchecked = re.findall(r"^hint (\w+) not checked: .* adds it\.$", told, re.M)
    assert unchecked == ([] if role == "operator" else ["functions"])
    assert "fine server" in told


def test_memory_without_a_limit_is_a_hint(qless) -> None:
    assert re.search(r"^hint memory .*Set maxmemory", doctor_words(), re.M)


@pytest.mark.parametrize(("part", "is_full"), [(0.7, False), (0.9, True)])
def test_memory_is_a_problem_from_four_fifths_of_the_limit(
    part: float, is_full: bool
) -> None:
    with Server("valkey") as server:
        redis = server.shared_client()
        with override_settings(QLESS={"default": {"LOCATION": server.url}}):
            doctor_words()  # loads the core
            # The buffer of the connection that has loaded it takes memory as well.
            redis.client_kill_filter(_type="normal", skipme=True)
            redis.config_set("maxmemory", int(redis.info()["used_memory"] / part))
            told = doctor_words()
    assert ("soon no job can be enqueued" in told) == is_full
    assert re.search(r"^fine memory [\d,]+ of [\d,]+ bytes are used$", told, re.M)


def test_without_info_the_server_is_not_checked(server: Server) -> None:
    set_user(server, "worker", "-info")
    location = {"LOCATION": url_of(server, "worker")}
    with override_settings(QLESS={"default": location}):
        told = doctor_words()
    set_user(server, "worker")
    assert "hint server not checked: version, memory, eviction" in told


def test_a_user_who_may_not_even_look(server: Server) -> None:
    set_user(server, "worker", "-hmget")
    location = {"LOCATION": url_of(server, "worker")}
    with override_settings(QLESS={"default": location}):
        found = doctor_findings()
    set_user(server, "worker")
    assert found[-1][:2] == ("PROBLEM", "server")
    assert "ACL SETUSER worker +hmget adds it" in found[-1][2]


def test_options_set_by_hand(qless) -> None:
    qless.config_set("heartbeat", 5)
    assert "heartbeat was set by an operator" in doctor_words()


def test_failures_are_counted_by_group(qless, work) -> None:
    assert "failed: " not in doctor_words()
    for group in ("a", "a", "b"):
        failing.delay(group, "m")
    work()
    assert "hint failures failed: 3 jobs in 2 groups" in doctor_words()


def test_a_module_of_jobs_that_cannot_be_imported(
    qless, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "halfway"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "jobs.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.syspath_prepend(tmp_path)
    with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, "halfway"]):
        told = doctor_words()
    assert (
        "PROBLEM jobs halfway.jobs cannot be imported: "
        "ModuleNotFoundError(\"No module named 'nowhere_to_be_found'\")"
    ) in told


def test_jobs_that_use_an_outbox_that_is_not_installed(server: Server) -> None:
    alias = {"LOCATION": server.url, "ON_COMMIT": "outbox"}
    with override_settings(QLESS={"default": alias}):
        found = [text for _, about, text in doctor_findings() if about == "outbox"]
    [text] = found
    assert text.startswith("QLESS['default'], by ON_COMMIT, uses the outbox")
    assert "is not installed" in text
