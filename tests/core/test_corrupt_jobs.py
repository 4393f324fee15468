"""One record that cannot be read stops neither its queue nor the tools, and is named."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
import redis

from django_qless.core.listings import read_rows
from tests.core.keyed import Keyed, settlement
from tests.core.random_run import CODES

GROUP = "corrupt-record"

# As in spawned.lua: so many spawned jobs are looked at one by one.
FEW = 10

ANY = ["", "abc", "{", "5x", "\udcff\udcfe", "x" * 5000]
JSON = ['"text"', "null", "[1", "[" * 5000]
NUMBER = ["inf", "[5]"]

#: Every field that is more than a text, and what must not stand there.
FIELDS: dict[str, list[str]] = {
    "state": ANY,
    **dict.fromkeys(("priority", "retries", "remaining", "crashes"), ANY + NUMBER),
    **dict.fromkeys(("time", "deadline", "scheduled", "first"), ANY + NUMBER),
    **dict.fromkeys(("unknown", "token", "cascade"), ANY + NUMBER),
    "expires": ANY[1:] + NUMBER,
    "tags": [*ANY, *JSON, "[[1]]", '{"a":1}', '[{"a":1}]'],
    "spawners": [*ANY, *JSON, "[[1]]", '{"a":1}'],
    "beyond": [*ANY, *JSON, "[[1]]", '{"a":1}'],
    "failure": [*ANY, *JSON, "[1]", '{"group":5}', '{"when":"x"}', '{"message":[]}'],
    "context": [*ANY, *JSON, "[1]"],
    "progress": [*ANY, *JSON],
    "history": [*ANY, *JSON, "[1]", '[{"put":"x","q":"y"}]', '[{"put":1}]'],
    "unique": ANY,
}

WHOLE = {
    "priority": 3,
    "tags": ["red", "blue"],
    "retries": 2,
    "context": '{"a":1}',
    "expires": 100_000,
}
DATA = '{"n": 12345678901234567}'


class Scene:
    """A queue with sound jobs, and jobs of whose records a field is overwritten."""

    def __init__(self, keyed: Keyed, field: str, values: list[str]) -> None:
        self.keyed = keyed
        self.field = field
        self.now = 1000.0
        self.sound = [f"sound-{n}" for n in range(6)]
        self.victims = {f"victim-{n}": value for n, value in enumerate(values)}
        self.tokens: dict[str, str] = {}
        self.random = random.Random(field)

    # Making it.

    def put(self, jid: str, **options: Any) -> None:
        options = {"unique": f"key {jid}", **WHOLE, **options}
        self.keyed.put(jid, self.now, data=DATA, **options)

    def put_sound(self) -> None:
        for jid in self.sound:
            self.put(jid)

    def put_victims(self, **options: Any) -> None:
        for jid in self.victims:
            self.put(jid, **options)

    def take(self) -> dict[str, str]:
        found = self.keyed.take(100, now=self.now)
        self.tokens.update({job["jid"]: job["token"] for job in found})
        return {job["jid"]: job["token"] for job in found}

    def corrupt(self) -> None:
        for jid, value in self.victims.items():
            name = f"ql:j:{jid}"
            raw = value.encode(errors="surrogateescape")
            self.keyed.server.hset(name, mapping={self.field: raw, "rare": "1"})

    # Working on.

    def attempt(self, command: str, *args: Any) -> Any:
        """Call; what is refused must be refused in words that are for people."""
        try:
            return self.keyed.call(command, *args, now=self.now)
        except redis.ResponseError as error:
            if str(error).split(" ", 1)[0] not in CODES:
                raise AssertionError(f"{command} {args} broke off: {error}") from error
            return None

    def look(self) -> None:
        """Read all there is to read, as pages and tools do."""
        jids = [*self.sound, *self.victims]
        for jid in jids:
            for command in (("get", jid), ("job.view", jid, 10, 100)):
                text = self.attempt(*command)
                assert text is None or json.loads(text)
        json.loads(self.attempt("multiget", *jids))
        rows = json.loads(self.attempt("brief", *jids))
        assert [row.jid for row in read_rows(rows)] == jids
        for kind in ("waiting", "running", "stalled", "scheduled", "depends"):
            rows = json.loads(self.attempt("briefs", 100, kind, "queue", 0, 100))
            read_rows(rows)
        for command in (
            ("queues",), ("failed",), ("workers", "worker"), ("stats", "queue", self.now),
            ("peek", "queue", 100), ("failure.groups", "last", 0, 100),
            ("failure.group", GROUP), ("worker.views", 0, 10, 10), ("tag.counts", 0, 9),
            ("tag", "get", "red"), ("schedules.next", 5), ("track",),
        ):  # fmt: skip
            text = self.attempt(*command)
            assert text is None or json.loads(text) is not None
        for command in (("survey",), ("lag", "queue"), ("due", "queue")):
            assert self.attempt(*command) is not None

    def meddle(self) -> None:
        """Do with each victim what an operator may do."""
        for jid in self.victims:
            for command in self.random.sample(
                [
                    ("tag", "add", jid, "green"), ("tag", "remove", jid, "green"),
                    ("priority", jid, 5), ("track", "track", jid), ("track", "untrack", jid),
                    ("log", jid, "word"), ("each", "timeout", jid), ("each", "tag", "x", jid),
                    ("each", "untag", "x", jid), ("await", "me", 1, "job", jid),
                ],
                4,
            ):  # fmt: skip
                self.attempt(*command)

    def work(self) -> None:
        """Run all jobs to their ends, through the time in which locks expire."""
        for _ in range(6):
            for _ in range(20):
                if not self.take():
                    break
                done = [
                    settlement(jid, token, "complete")
                    for jid, token in self.tokens.items()
                ]
                self.keyed.settle(done, now=self.now)
                self.tokens.clear()
            self.now += 100

    def record(self, jid: str) -> dict[str, str]:
        record: dict[str, str] = self.keyed.server.hgetall(f"ql:j:{jid}")
        return record

    def check(self) -> None:
        """The sound ones have run; the others are complete, or failed with a reason."""
        for jid in self.sound:
            assert self.record(jid)["state"] == "complete", jid
        for jid, value in self.victims.items():
            record = self.record(jid)
            assert record["data"] == DATA
            if record["state"] == "complete":
                continue
            assert record["state"] == "failed", (jid, value, record)
            failure = json.loads(self.keyed.call("get", jid, now=self.now))["failure"]
            if self.field != "failure":
                words = f"Its field {self.field} cannot be read: "
                assert (failure["group"], jid) in ((GROUP, jid), ("mine", jid))
                assert failure["message"].startswith(
                    words if failure["group"] == GROUP else "no"
                )
                assert len(failure["message"]) < 150

    def end(self) -> None:
        """Retry, put anew or cancel what has failed; nothing may be left of it."""
        for number, (jid, value) in enumerate(self.victims.items()):
            state = self.record(jid)["state"]
            if state == "failed" and number % 3 == 0:
                assert self.keyed.call("revive", jid, now=self.now) == 1, (jid, value)
            elif state == "failed" and number % 3 == 1:
                self.keyed.call("cancel", jid, now=self.now)
            else:
                self.keyed.put(jid, self.now, data=DATA)
        self.give_keys_again()
        assert self.keyed.violations() == []
        self.look_again()
        self.work()
        for jid in self.victims:
            assert self.record(jid).get("state", "complete") == "complete", jid
        assert self.keyed.violations() == []
        assert self.keyed.server.keys("ql:f:*") == []

    def give_keys_again(self) -> None:
        """Nothing says any more which unique key these had: whoever wants it takes it."""
        if self.field == "unique":
            for jid in self.victims:
                self.keyed.put(f"new {jid}", self.now, unique=f"key {jid}")
                assert self.record(f"new {jid}")["state"] == "waiting"

    def look_again(self) -> None:
        for jid in self.victims:
            text = self.keyed.call("get", jid, now=self.now)
            assert text is None or json.loads(text)["data"] == DATA


def waiting(scene: Scene) -> None:
    scene.put_victims()
    scene.put_sound()
    scene.corrupt()


def running(scene: Scene) -> None:
    """Some end well, the others in each of the ways in which a run can end."""
    scene.put_victims()
    held = scene.take()
    scene.put_sound()
    scene.corrupt()
    verbs: list[tuple[Any, ...]] = [
        ("complete", "[1]", 60), ("retry", 0, "mine", "no"), ("release", 0),
        ("fail", "mine", "no"), ("crash", 3, "mine", "no"), ("unknown", 600),
        ("move", "queue"),
    ]  # fmt: skip
    settlements = []
    for number, (jid, token) in enumerate(held.items()):
        verb, *args = verbs[number % len(verbs)]
        if number < len(verbs) + 3:
            settlements.append(settlement(jid, token, verb, *args))
    scene.keyed.settle(settlements, now=scene.now)
    scene.tokens.clear()


def lost(scene: Scene) -> None:
    """Their worker has gone, and another one finds the locks expired."""
    scene.put_victims()
    scene.take()
    scene.tokens.clear()
    scene.put_sound()
    scene.corrupt()


def stalled(scene: Scene) -> None:
    scene.put_victims()
    held = scene.take()
    scene.tokens.clear()
    scene.keyed.call("timeout", *held, now=scene.now)
    scene.put_sound()
    scene.corrupt()


def scheduled(scene: Scene) -> None:
    scene.put_victims(delay=50)
    scene.put_sound()
    scene.corrupt()


def depends(scene: Scene) -> None:
    scene.put_sound()
    scene.put_victims(depends=[scene.sound[0]])
    scene.corrupt()


def delayed_dependents(scene: Scene) -> None:
    scene.put_sound()
    scene.put_victims(depends=[scene.sound[0]], delay=50, on_failure="run")
    scene.corrupt()


def failed(scene: Scene) -> None:
    scene.put_victims()
    fails = [settlement(*pair, "fail", "mine", "no") for pair in scene.take().items()]
    scene.keyed.settle(fails, now=scene.now)
    scene.tokens.clear()
    scene.put_sound()
    scene.corrupt()


def complete(scene: Scene) -> None:
    scene.put_victims()
    done = [settlement(*pair, "complete") for pair in scene.take().items()]
    scene.keyed.settle(done, now=scene.now)
    scene.tokens.clear()
    scene.put_sound()
    scene.corrupt()


PLACES: list[Callable[[Scene], None]] = [
    waiting,
    running,
    lost,
    stalled,
    scheduled,
    depends,
    delayed_dependents,
    failed,
    complete,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_cannot_be_read(
    keyed: Keyed, field: str, place: Callable[[Scene], None]
) -> None:
    scene = Scene(keyed, field, FIELDS[field])
    place(scene)
    if not (place in (failed, complete) and field == "state"):
        scene.look()
    scene.meddle()
    scene.work()
    if place in (failed, complete) and field == "state":
        # In no place, so that only a question for this job finds it.
        for jid in scene.victims:
            keyed.call("cancel", jid, now=scene.now)
        return
    scene.check()
    scene.look()
    scene.end()


@pytest.mark.parametrize(
    ("verb", "args"),
    [("retry", [5, "mine", "no"]), ("release", [5]), ("crash", [3, "mine", "no"]),
     ("unknown", [600]), ("move", ["side"])],
)  # fmt: skip
def test_a_run_that_ends_without_success_ends_there(
    keyed: Keyed, verb: str, args: list[Any]
) -> None:
    keyed.put("jid", retries=3)
    token = keyed.token("jid")
    keyed.server.hset("ql:j:jid", "priority", "high")
    assert not keyed.settle([settlement("jid", token, verb, *args)]).refused
    job = keyed.job("jid")
    assert (job["state"], job["failure"]["group"]) == ("failed", GROUP)


def test_a_retry_without_keys_of_what_cannot_be_run(keyed: Keyed) -> None:
    keyed.core.put("jid", 0)
    keyed.core.popped(1)
    keyed.server.hset("ql:j:jid", "remaining", "many")
    assert keyed.core.old("retry", 2, "jid", "queue", "worker") == -1
    job = keyed.job("jid", 2)
    assert (job["state"], job["failure"]["group"]) == ("failed", GROUP)


@pytest.mark.parametrize("field", ["retries", "remaining", "priority"])
def test_what_cannot_be_run_is_not_handed_out(keyed: Keyed, field: str) -> None:
    keyed.put("jid")
    keyed.server.hset("ql:j:jid", field, "many")
    assert keyed.take() == []
    job = keyed.job("jid")
    assert (job["state"], job["failure"]["group"]) == ("failed", GROUP)
    assert keyed.call("revive", "jid", now=5) == 1
    assert keyed.job("jid", 5)["history"][-2:][0] == {
        "what": "mended",
        "when": 5,
        "fields": [field],
    }


def test_what_it_waits_for_cannot_be_read(keyed: Keyed) -> None:
    keyed.put("first")
    keyed.put("second", depends=["first"])
    keyed.server.hset("ql:j:second", mapping={"beyond": "{", "rare": "1"})
    keyed.settle([settlement("first", keyed.token("first"), "complete")])
    job = keyed.job("second")
    assert (job["state"], job["failure"]["group"]) == ("failed", GROUP)


SCHEDULE: dict[str, list[str]] = {
    **dict.fromkeys(("priority", "retries", "expires"), ANY + NUMBER),
    "tags": FIELDS["tags"],
    "context": [text for text in FIELDS["context"] if text not in ("", "[1]")],
}


@pytest.mark.parametrize("field", SCHEDULE)
def test_a_schedule_that_cannot_be_read(keyed: Keyed, field: str) -> None:
    """The others tick; it is named, and no tick is lost when it is mended."""
    victims = dict(zip("abcdefghijklmnopqrstuvwxyz", SCHEDULE[field], strict=False))
    for schedule in [*victims, "sound"]:
        keyed.call("schedule.set", schedule, "queue", "klass", DATA, "interval", 60, "tags",
                   '["red"]', "context", '{"a":1}', "expires", 1000, now=1000)  # fmt: skip
    kept = keyed.server.hget("ql:schedule:sound", field)
    for schedule, value in victims.items():
        raw = value.encode(errors="surrogateescape")
        keyed.server.hset(f"ql:schedule:{schedule}", field, raw)
    ticks = [(each, 1000, 1000, "", 1060, "") for each in [*victims, "sound"]]
    done = keyed.call(
        "schedule.tick", *[part for each in ticks for part in each], now=1000
    )
    assert done == [*(0 for _ in victims), 1]
    assert [job["jid"] for job in keyed.take(now=1000)] == ["sound@1000"]
    for schedule in victims:
        assert keyed.json("schedule.get", schedule, now=1001)["trouble"]
        assert keyed.refusal("schedule.run", schedule, now=1001).startswith("STATE")
        keyed.server.hset(f"ql:schedule:{schedule}", field, kept)
    listed = keyed.json("schedule.list", 0, 100, now=1001)["schedules"]
    assert len(listed) == len(victims) + 1
    again = keyed.call("schedule.due", "w", 100, now=1070)[3]
    since = dict(zip(again[::7], again[2::7], strict=True))
    assert since == {"sound": "", **dict.fromkeys(victims, "940")}
    assert keyed.violations() == []


COUNTERS = ("total", "complete", "failed", "canceled", "held", "cancel_at", "created")


@pytest.mark.parametrize("field", [*COUNTERS, "finished", "meta", "state", "chore"])
def test_a_workflow_that_cannot_be_read(keyed: Keyed, field: str) -> None:
    """Its jobs run, others as well, and nothing that is asked of it breaks off."""
    values = ANY + NUMBER
    for number, value in enumerate(values):
        name = f"flow-{number}"
        jobs = (f"{name}-1", "queue", "k", "{}", 0, 1, "workflow", name,
                f"{name}-2", "queue", "k", "{}", 0, 2, "workflow", name,
                "depends", f'["{name}-1"]')  # fmt: skip
        keyed.call("workflow.put", name, "w", "{}", *jobs, now=1000)
        raw = value.encode(errors="surrogateescape")
        keyed.server.hset(f"ql:workflow:{name}", field, raw)
    keyed.put("job", 1000)
    now = 1000.0
    for number in range(len(values)):
        name = f"flow-{number}"
        json.loads(keyed.call("workflow.get", name, now=now))
        keyed.call("workflow.retry", name, 0, now=now)
    ran = set()
    for _ in range(3):
        for job in keyed.take(100, now=now):
            ran.add(job["jid"])
            keyed.settle([settlement(job["jid"], job["token"], "complete")], now=now)
        now += 1
    assert ran == {
        "job",
        *(f"flow-{n}-{m}" for n in range(len(values)) for m in (1, 2)),
    }


def test_a_line_of_the_history_that_cannot_be_read(keyed: Keyed) -> None:
    keyed.put("a", 1000)
    for line in ("abc", '{"a":1}', "[1]", '["x","y"]', '[1,"what",5]', "null", ""):
        keyed.server.rpush("ql:j:a-history", line)
    history = keyed.job("a", 1000)["history"]
    assert [entry["what"] for entry in history] == ["put", *["unreadable"] * 7]
    assert history[1]["text"] == "abc"
    view = keyed.json("job.view", "a", 9, 100, now=1000)
    assert len(view["job"]["history"]) == 8
    read_rows(keyed.json("brief", "a", now=1000))
    [job] = keyed.take(now=1000)
    keyed.settle([settlement("a", job["token"], "complete")], now=1000)
    assert keyed.job("a", 1000)["state"] == "complete"


@pytest.mark.parametrize("field", sorted(set(FIELDS) - {"token", "crashes"}))
def test_calls_without_keys_go_on(keyed: Keyed, field: str) -> None:
    core = keyed.core
    now = 1000.0
    for number, value in enumerate(FIELDS[field]):
        core.put(f"victim-{number}", now, tags=["red"], retries=2)
        raw = value.encode(errors="surrogateescape")
        core.server.hset(f"ql:j:victim-{number}", mapping={field: raw, "rare": "1"})
    for number in range(5):
        core.put(f"sound-{number}", now)
    core.json("peek", now, "queue", 5)
    ran = set()
    for _ in range(12):
        for jid in core.popped(now, 10):
            ran.add(jid)
            core.complete(jid, now)
        now += 100
    assert ran >= {f"sound-{number}" for number in range(5)}
    for number in range(len(FIELDS[field])):
        core.job(f"victim-{number}", now)
        state = core.server.hget(f"ql:j:victim-{number}", "state")
        assert state in ("complete", "failed")


@pytest.mark.parametrize("count", [1, FEW])
def test_what_a_spawner_waits_for_is_found_done_although_it_cannot_say_so(
    keyed: Keyed, count: int
) -> None:
    children = [f"child-{n}" for n in range(count)]
    keyed.put("spawner", 1000)
    token = keyed.token("spawner", 1000)
    items = [part for jid in children for part in (jid, "queue", "k", "{}", 0, 0)]
    keyed.call("spawn", "spawner", token, "w", *items, now=1000)
    keyed.put("after", 1000, depends=["spawner"])
    keyed.settle([settlement("spawner", token, "complete")], now=1000)
    for child in children:
        keyed.server.hset(f"ql:j:{child}", "spawners", "abc")
    assert keyed.take(count, now=1001) == []
    assert keyed.job("after", 1001)["state"] == "depends"
    for child in children:
        assert keyed.job(child, 1001)["failure"]["group"] == GROUP
        assert keyed.call("revive", child, now=1001) == 1
    taken = keyed.take(count, now=1001)
    assert sorted(job["jid"] for job in taken) == sorted(children)
    ends = [settlement(job["jid"], job["token"], "complete") for job in taken]
    keyed.settle(ends, now=1001)
    assert [job["jid"] for job in keyed.take(now=1002)] == ["after"]
    assert not keyed.server.exists("ql:spawned:spawner")


@pytest.mark.parametrize("field", ["remaining", "expires", "priority"])
@pytest.mark.parametrize("place", ["work", "locks"])
@pytest.mark.parametrize("state", ["complete", "failed"])
def test_what_has_ended_stays_so_wherever_a_stranger_puts_it(
    keyed: Keyed, state: str, place: str, field: str
) -> None:
    keyed.put("jid", 1000)
    token = keyed.token("jid", 1000)
    end = ("complete",) if state == "complete" else ("fail", "group", "message")
    keyed.settle([settlement("jid", token, *end)], now=1001)
    history = keyed.server.lrange("ql:j:jid-history", 0, -1)
    keyed.server.zadd(f"ql:q:queue-{place}", {"jid": 1})
    keyed.server.hset("ql:j:jid", mapping={field: "abc", "rare": "1"})
    keyed.take(now=1002)
    assert keyed.job("jid", 1002)["failure"].get("group") in (None, "group")
    if keyed.server.hget("ql:j:jid", "state") == state:
        assert keyed.server.lrange("ql:j:jid-history", 0, -1) == history


@pytest.mark.parametrize("field", ["queue", "worker", "klass", "data", "priority"])
def test_a_job_without_a_field_stops_no_call(keyed: Keyed, field: str) -> None:
    for command in (
        ("priority", "jid", 5), ("timeout", "jid"), ("tag", "add", "jid", "t"), ("get", "jid"),
        ("track", "track", "jid"), ("brief", "jid"), ("job.view", "jid", 1, 1), ("cancel", "jid"),
    ):  # fmt: skip
        keyed.server.flushall()
        keyed.put("jid", 1000)
        keyed.server.hdel("ql:j:jid", field)
        text = refused(keyed, *command)
        assert not text or text.split(" ", 1)[0] in CODES, text


@pytest.mark.parametrize("worker", [None, ""])
def test_a_run_without_a_worker_can_be_timed_out(
    keyed: Keyed, worker: str | None
) -> None:
    keyed.put("jid", 1000)
    keyed.take(now=1000)
    keyed.server.hdel("ql:j:jid", "worker")
    if worker is not None:
        keyed.server.hset("ql:j:jid", "worker", worker)
    keyed.call("timeout", "jid", now=1001)
    assert [job["jid"] for job in keyed.take(now=1002)] == ["jid"]


def test_dependents_that_are_no_jobs_or_in_no_queue_stop_no_cancel(
    keyed: Keyed,
) -> None:
    member = ("jid", "queue", "klass", "{}", 0, 1, "workflow", "flow")
    keyed.call("workflow.put", "flow", "w", "{}", *member, now=1000)
    keyed.put("dependent", 1000, depends='["jid"]')
    keyed.put("other", 1000, depends='["jid"]')
    keyed.server.sadd("ql:j:jid-dependents", "ghost")
    keyed.server.hdel("ql:j:dependent", "queue")
    keyed.call("workflow.cancel", "flow", now=1002)
    for jid in ("dependent", "other"):
        assert keyed.server.hget(f"ql:j:{jid}", "state") == "failed"
    assert keyed.call("get", "ghost", now=1003) is None


def test_a_job_without_a_queue_does_not_keep_back_those_behind_it(keyed: Keyed) -> None:
    keyed.call("config.set", "klass-max-concurrency-per-key", 1, now=1000)
    for number, jid in enumerate(("first", "second", "third")):
        keyed.put(jid, 1000 + number / 10, limit_key="k")
    [job] = keyed.take(now=1001)
    keyed.server.hdel("ql:j:second", "queue")
    keyed.call("complete", job["jid"], job["token"], "queue", "{}", now=1002)
    keyed.call("cancel", "second", now=1003)
    assert [job["jid"] for job in keyed.take(now=1010)] == ["third"]


@pytest.mark.parametrize("command", ["beat", "heartbeat"])
def test_a_running_job_without_a_queue_keeps_no_other_from_being_renewed(
    keyed: Keyed, command: str
) -> None:
    for jid in ("bad", "good"):
        keyed.put(jid, 1000)
    jobs = keyed.take(worker="w", now=1000)
    keyed.server.hdel("ql:j:bad", "queue")
    if command == "beat":
        held = [part for job in jobs for part in (job["jid"], job["token"], "")]
        assert keyed.call("beat", "w", "{}", 2, *held, now=1050) == [[], []]
    else:
        for job in jobs:
            keyed.call("heartbeat", job["jid"], job["token"], now=1050)
    ends = float(keyed.server.hget("ql:j:good", "expires") or 0)
    assert ends > 1100
    assert float(keyed.server.hget("ql:j:bad", "expires") or 0) == ends
    assert keyed.server.zscore("ql:q:queue-locks", "good") == ends
    assert not keyed.server.exists("ql:q:-locks")


def refused(keyed: Keyed, *command: Any) -> str:
    """Call; return the error's text, if any."""
    try:
        keyed.call(*command, now=1001)
    except redis.ResponseError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("length", "shown"), [(60, "x" * 60), (61, "x" * 60 + "...")])
def test_of_what_cannot_be_read_60_bytes_are_shown(
    keyed: Keyed, length: int, shown: str
) -> None:
    keyed.put("jid", 1000)
    keyed.server.hset(
        "ql:j:jid", mapping={"scheduled": "x" * length, "state": "x" * length}
    )
    assert keyed.take(now=1001) == []
    failure = keyed.job("jid", 1001)["failure"]
    assert failure["message"] == f"Its field state cannot be read: {shown}"


def test_one_whose_time_cannot_be_read_fails_instead_of_being_free(
    keyed: Keyed,
) -> None:
    keyed.put("first")
    keyed.put("second", depends=["first"], delay=50)
    keyed.server.hset("ql:j:second", "scheduled", "soon")
    keyed.settle([settlement("first", keyed.token("first"), "complete")])
    words = "Its field scheduled cannot be read: soon"
    assert keyed.job("second")["failure"]["message"] == words


def test_a_scheduled_job_without_a_state_fails_when_it_is_due(keyed: Keyed) -> None:
    keyed.put("jid", 1000, delay=5)
    keyed.server.hdel("ql:j:jid", "state")
    assert keyed.take(now=1006) == []
    failure = keyed.job("jid", 1006)["failure"]
    assert (failure["group"], failure["message"]) == (
        GROUP,
        "Its field state cannot be read: it is empty",
    )


def test_a_job_in_the_hands_of_another_queue_leaves_both(keyed: Keyed) -> None:
    keyed.put("jid", queue="queue")
    keyed.put("next", 1, queue="queue")
    keyed.server.hset("ql:j:jid", mapping={"queue": "other", "remaining": "x"})
    keyed.server.zadd("ql:q:other-depends", {"jid": 1})
    assert [job["jid"] for job in keyed.take(2, queue="queue", now=2)] == ["next"]
    assert keyed.server.hmget("ql:j:jid", "state", "queue") == ["failed", "other"]
    assert not keyed.server.exists("ql:q:other-depends", "ql:q:queue-work")
    assert keyed.json("failed", GROUP, 0, 5, now=3)["total"] == 1


def test_a_lost_run_in_the_hands_of_another_queue_leaves_both(keyed: Keyed) -> None:
    keyed.put("jid", queue="queue")
    keyed.take(queue="queue", now=1)
    keyed.server.hset("ql:j:jid", mapping={"queue": "other", "remaining": "x"})
    assert keyed.take(queue="queue", now=1000) == []
    assert keyed.server.hmget("ql:j:jid", "state", "queue") == ["failed", "other"]
    assert not keyed.server.exists("ql:q:queue-locks", "ql:q:queue-work")
    assert keyed.take(queue="queue", now=2000) == []
    assert keyed.json("failed", GROUP, 0, 5, now=3000)["total"] == 1


def test_a_job_that_is_handed_back_fails_if_it_cannot_be_read(keyed: Keyed) -> None:
    keyed.put("jid")
    token = keyed.token("jid", 1)
    keyed.server.hset("ql:j:jid", "remaining", "x")
    assert keyed.call("release", "jid", token, now=2) == 1
    failure = keyed.job("jid", 3)["failure"]
    assert (failure["group"], failure["when"]) == (GROUP, 2)


@pytest.mark.parametrize("entry", ['["x","put"]', "[1,2]", '[1,"put",3]', "5"])
def test_what_a_canceled_job_did_if_that_cannot_be_read(
    keyed: Keyed, entry: str
) -> None:
    keyed.put("jid")
    keyed.call("cancel", "jid", now=1)
    assert len(keyed.job("jid", 2)["history"]) == 2
    keyed.server.hset("ql:canceled:jid", "history", f'[[1,"put",{{}}],{entry}]')
    assert not keyed.job("jid", 2)["history"]


def test_a_schedule_whose_counter_cannot_be_read_runs_now(keyed: Keyed) -> None:
    keyed.call("schedule.set", "s", "q", "k", "{}", "interval", 60, now=0)
    keyed.server.hset("ql:schedule:s", "count", "x")
    child = keyed.call("schedule.run", "s", now=1)
    assert keyed.job(child, 2)["state"] == "waiting"
    assert keyed.json("schedule.get", "s", now=2)["count"] == 1
