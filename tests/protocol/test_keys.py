"""Exactly the original's keys and fields, as long as no call with KEYS was made."""

from __future__ import annotations

import re

import pytest

from tests.core.caller import Core
from tests.core.keyspace import scores, snapshot

JOB_FIELDS = set(
    "jid klass data priority tags state worker expires queue retries remaining time "
    "failure spawned_from_jid grace scheduled".split()
)
TEMPLATE_FIELDS = set(
    "jid klass data priority tags state queue type count interval retries backlog".split()
)
STATS_FIELDS = re.compile(r"total|mean|vk|[smhd]\d+")
GLOSSARY = {
    r"ql:config": ("hash", None),
    r"ql:queues": ("zset", None),
    r"ql:paused_queues": ("set", None),
    r"ql:q:[a-z]+-(work|locks|scheduled|depends|recur)": ("zset", None),
    r"ql:j:[a-z\d-]+-history": ("list", None),
    r"ql:j:[a-z\d-]+-(dependencies|dependents)": ("set", None),
    r"ql:j:[a-z\d-]+": ("hash", JOB_FIELDS.__contains__),
    r"ql:r:[a-z]+": ("hash", TEMPLATE_FIELDS.__contains__),
    r"ql:w:[a-z]+:jobs": ("zset", None),
    r"ql:workers": ("zset", None),
    r"ql:failures": ("set", None),
    r"ql:f:[a-z-]+": ("list", None),
    r"ql:tracked": ("zset", None),
    r"ql:tags": ("zset", None),
    r"ql:t:[a-z]+": ("zset", None),
    r"ql:completed": ("zset", None),
    r"ql:s:(wait|run):\d+:[a-z]+": ("hash", STATS_FIELDS.fullmatch),
    r"ql:s:stats:\d+:[a-z]+": ("hash", {"retries", "failures", "failed"}.__contains__),
}


def broad_scenario(core: Core) -> None:
    """Use every command without KEYS that writes, and leave each kind of key."""
    core.old("config.set", 0, "heartbeat", 50)
    core.old("config.set", 0, "application", "test")
    core.old("config.unset", 0, "application")
    for number in range(8):
        core.put(f"job-{number}", number, tags=["even" if number % 2 else "odd", "all"])
    core.put("delayed", 1, delay=1000, priority=9)
    core.put("waits", 1, depends=["delayed"])
    core.put("late", 1, depends=["delayed"], delay=5000)
    core.put("moved", 2, queue="other")
    core.old("requeue", 3, "worker", "third", "moved", "klass", "{}", 0)
    core.old("recur", 0, "queue", "cron", "klass", "{}", "interval", 60, 0,
             "tags", '["cron"]', "backlog", 3)  # fmt: skip
    core.old("recur.update", 0, "cron", "retries", 2)
    core.old("recur.tag", 0, "cron", "extra")
    core.old("recur", 0, "queue", "gone", "klass", "{}", "interval", 60, 0)
    core.old("unrecur", 0, "gone")
    core.old("track", 4, "track", "job-7")
    jids = core.popped(5, 7)
    assert len(jids) == 7
    core.complete(jids[0], 6)
    core.complete(jids[1], 7, next="other")
    core.complete(jids[2], 7, next="other", depends=["delayed"])
    core.old("fail", 8, jids[3], "worker", "group", "message")
    core.old("retry", 9, jids[4], "queue", "worker", 5, "group", "message")
    core.old("heartbeat", 10, jids[5], "worker", '{"half":1}')
    core.old("log", 10, jids[5], "message")
    core.old("timeout", 11, jids[6])
    core.old("priority", 12, "delayed", 4)
    core.old("tag", 13, "add", "delayed", "new")
    core.old("tag", 13, "remove", "delayed", "new")
    core.old("depends", 14, "waits", "on", "job-7")
    core.old("depends", 14, "waits", "off", "delayed")
    core.old("pause", 15, "other", "third")
    core.old("unpause", 15, "other")
    core.pop(200, worker="second")
    core.pop(300, worker="third")
    core.put("doomed", 300, retries=0)
    assert "doomed" in core.popped(300, 50)
    core.old("retry", 301, "doomed", "queue", "worker")
    core.old("unfail", 302, "queue", "group")
    core.put("cancelled", 303, tags=["all"])
    core.old("cancel", 304, "cancelled")
    core.old("worker.deregister", 305, "third")
    core.old("queue.forget", 305, "third")
    for command, *args in (
        ("queues",), ("workers",), ("failed",), ("track",), ("peek", "queue", 5),
        ("stats", "queue", 0), ("jobs", "scheduled", "queue"), ("tag", "top"),
    ):  # fmt: skip
        core.old(command, 306, *args)


def test_only_the_keys_and_fields_of_the_glossary_exist(core: Core) -> None:
    broad_scenario(core)
    seen = set()
    for name, (kind, content, expires) in snapshot(core.server).items():
        pattern = next((p for p in GLOSSARY if re.fullmatch(p, name)), None)
        assert pattern is not None, f"unknown key {name}"
        seen.add(pattern)
        expected, field_is_known = GLOSSARY[pattern]
        assert kind == expected, name
        assert expires == -1, f"{name} has a time to live"
        if field_is_known:
            unknown = [field for field in content if not field_is_known(field)]
            assert unknown == [], name
    assert seen == set(GLOSSARY), "the scenario leaves a kind of key out"


def test_no_other_database_is_touched(core: Core) -> None:
    broad_scenario(core)
    assert set(core.server.info("keyspace")) == {"db0"}


def test_every_key_of_a_small_namespace(core: Core) -> None:
    """One running job, one waiting job with a tag: this and nothing else."""
    core.put("a", 1)
    core.pop(2)
    core.put("b", 3, tags=["t"], priority=1)
    content = {name: value for name, (_, value, _) in snapshot(core.server).items()}
    assert set(content) == {
        "ql:queues", "ql:workers", "ql:tags", "ql:t:t", "ql:q:queue-work",
        "ql:q:queue-locks", "ql:w:worker:jobs", "ql:j:a", "ql:j:a-history",
        "ql:j:b", "ql:j:b-history", "ql:s:wait:0:queue",
    }  # fmt: skip
    assert content["ql:queues"] == [("queue", 1)]
    assert content["ql:workers"] == [("worker", 2)]
    assert content["ql:tags"] == [("t", 1)]
    assert content["ql:t:t"] == [("b", 3)]
    assert content["ql:q:queue-work"] == [("b", 1 - 3 / 10**10)]
    assert content["ql:q:queue-locks"] == [("a", 62)]
    assert content["ql:w:worker:jobs"] == [("a", 62)]
    assert content["ql:j:a"] == {
        "jid": "a", "klass": "klass", "data": "{}", "priority": "0", "tags": "{}",
        "state": "running", "worker": "worker", "expires": "62", "queue": "queue",
        "retries": "5", "remaining": "5", "time": "2.00000000000000000000",
    }  # fmt: skip
    assert content["ql:s:wait:0:queue"] == {
        "total": "1", "mean": "1", "vk": "0", "s1": "1",
    }  # fmt: skip


def test_what_is_left_when_the_last_record_is_forgotten(core: Core) -> None:
    """Names of queues and workers, and statistics: no trace of the job."""
    core.old("config.set", 0, "jobs-history", -1)
    core.put("jid", 1, tags=["tag"])
    core.pop(2)
    core.complete("jid", 3)
    assert set(snapshot(core.server)) == {
        "ql:config",
        "ql:queues",
        "ql:workers",
        "ql:s:wait:0:queue",
        "ql:s:run:0:queue",
    }


@pytest.mark.parametrize("name", ["a b", "a:b", "ü", "a-locks", "*", "{x}", "%s", "'"])
def test_odd_names_of_queues_and_workers(core: Core, name: str) -> None:
    core.put("jid", queue=name)
    assert scores(core.server, f"ql:q:{name}-work") == [("jid", 0)]
    assert core.popped(queue=name, worker=name) == ["jid"]
    assert scores(core.server, f"ql:w:{name}:jobs") == [("jid", 60)]
    assert core.json("queues", 0, name)["running"] == 1
