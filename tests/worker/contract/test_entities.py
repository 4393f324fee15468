"""Entities in all pools: never two runs of one at once, in order, nothing lost."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core.commands.entities import Payload, entity_jid
from tests import drawing
from tests.core.invariants import violations_on
from tests.real_servers import poll
from tests.worker.stage import FLAVOURS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worker.ledger import Ledger
    from tests.worker.stage import Stage

#: Entities, payloads, workers of two runs at a time, and kills: by day, and in the whole
#: form at night, or with QLESS_ALL_CELLS=1.
ENTITIES, PAYLOADS, WORKERS, KILLS = (
    (200, 20_000, 4, 12) if drawing.ALL else (30, 600, 2, 3)
)


#: Of every tenth entity one payload fails each time: it dies, and those before it.
FAILING, FAILS = 10, 7


def push(
    stage: Stage,
    path: Path,
    klass: str,
    numbers: dict[str, list[int]],
    batch: int = 5,
    **more: Any,
) -> None:
    """Push numbered payloads, their numbers as their scores."""
    payloads = [
        Payload(
            entity,
            json.dumps({"v": 1, "entity": entity}),
            json.dumps({"path": str(path), "n": n, **more, **failing(entity, n)}),
            n,
        )
        for entity, all_of_it in numbers.items()
        for n in all_of_it
    ]
    stage.client.push("", f"q-{klass}", klass, payloads, batch=batch, retries=0)


def failing(entity: str, n: int) -> dict[str, bool]:
    """Return what makes a payload fail, if it is one of those."""
    number = entity.removeprefix("e")
    fails = number.isdecimal() and int(number) % FAILING == FAILS and n == FAILS
    return {"fails": True} if fails else {}


def lines(path: Path) -> list[list[Any]]:
    """Return what was written down, in the order of time."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(found, key=lambda line: line[3])


def test_entities_run_together_and_end_each_for_itself(
    stage: Stage, tmp_path: Path
) -> None:
    for flavour in FLAVOURS:
        klass = f"{flavour}process_entities"
        path = tmp_path / klass
        push(stage, path, klass, {f"e{n}": [1, 2] for n in range(5)})
        if not flavour:
            push(stage, path, klass, {"bad": [1, 2]}, fails=True)
        stage.run(queues=[f"q-{klass}"])
        begun = [line for line in lines(path) if line[0] == "begin"]
        assert {line[1]: line[4] for line in begun if line[1] != "bad"} == {
            f"e{n}": [1, 2] for n in range(5)
        }
        [counts] = stage.client.entity_counts([f"q-{klass}"])
        assert counts.queued == counts.busy == 0
        assert counts.dead == (0 if flavour else 1)
    bad = stage.client.entity("q-process_entities", "bad")
    assert [payload["n"] for _, payload in bad.dying] == [1, 2]
    assert "broken" in bad.dead["message"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("klass", "group"),
    [("die_with_entities", "worker-crash"), ("insist_with_entities", "timeout")],
)
def test_a_killed_process_that_uses_retries_up_is_told(
    stage: Stage, tmp_path: Path, ledger: Ledger, klass: str, group: str
) -> None:
    path, queue = tmp_path / "lines", f"q-{klass}"
    path.touch()
    push(stage, path, klass, {"e1": [1], "e2": [3]}, dies=True)
    push(stage, path, klass, {"e1": [2]})
    stage.start(queues=[queue], announcements=ledger.path)
    stage.wait(
        lambda: {row["entity"] for row in dead_of(stage, queue)} == {"e1", "e2"},
        "both are dead",
    )
    stage.wait(lambda: [2] in [line[4] for line in lines(path)], "the rest goes on")
    stage.wait(
        lambda: {"e1=1,2", "e2=3"} <= {*" ".join(ledger.all()).split()}, "it is told"
    )
    heard = [line.split() for line in ledger.all()]
    assert ["exhausted", klass] in [line[:2] for line in heard]
    assert Counter(map(tuple, heard))["failed", klass, group] == 2
    assert all(row["group"] == group for row in dead_of(stage, queue))


def test_a_death_costs_no_entity_that_ran_before_it_or_waits_behind_it(
    stage: Stage, tmp_path: Path
) -> None:
    """Many of them are in the same message, as they are short."""
    path, klass = tmp_path / "lines", "die_with_entities"
    queue = f"q-{klass}"
    before, after = ([f"{word}{n}" for n in range(100)] for word in ("a", "b"))
    push(stage, path, klass, {entity: [1] for entity in before}, batch=1)
    push(stage, path, klass, {"bad": [1]}, batch=1, dies=True)
    push(stage, path, klass, {entity: [1] for entity in after}, batch=1)
    stage.run(queues=[queue])
    assert [row["entity"] for row in dead_of(stage, queue)] == ["bad"]
    begun = Counter(line[1] for line in lines(path))
    assert begun.keys() == {*before, *after, "bad"}
    if stage.pool in ("prefork", "fork"):
        jids = [entity_jid(queue, entity) for entity in (*before, *after)]
        assert {job.crashes for job in stage.client.multiget(jids)} == {0}


def test_who_finds_that_the_last_lock_is_lost_tells_it(
    stage: Stage, tmp_path: Path, ledger: Ledger
) -> None:
    client, klass, path = stage.client, "process_entities", tmp_path / "lines"
    queue = f"q-{klass}"
    path.touch()
    push(stage, path, klass, {"e1": [1, 2], "e2": [3]})
    stage.put("give", 1, retries=0)
    client.config_set("heartbeat", 0.1)
    client.config_set("grace-period", 0)
    for loss in range(4):
        held = 0

        def take() -> bool:
            nonlocal held
            held += len(client.settle("gone", [], 2, [queue]).jobs)
            return held == 2

        stage.wait(take, f"loss {loss}")
    assert client.settle("gone", [], 1, ["q"]).jobs
    client.config_unset("heartbeat")
    worker = stage.start(queues=[queue, "q"], announcements=ledger.path)
    stage.wait(lambda: [line[4] for line in lines(path)][-1:] == [[2]], "the rest")
    told = {("failed", "give", "failed-retries-q"): 1}
    told["failed", klass, "worker-crash"] = 2
    stage.wait(lambda: told.items() <= heard(ledger).items(), "failures are told")
    stage.wait(
        lambda: "e1=1,2" in str(ledger.all()) and "e2=3" in str(ledger.all()),
        "which retries are used up is told",
    )
    worker.signal("TERM")
    assert worker.wait() == 0, worker.output
    assert told.items() <= heard(ledger).items()
    assert str(ledger.all()).count("e1=") == str(ledger.all()).count("e2=") == 1
    assert {row["entity"] for row in dead_of(stage, queue)} == {"e1", "e2"}


def heard(ledger: Ledger) -> Counter[tuple[str, ...]]:
    """Return what was announced, how often."""
    return Counter(tuple(line.split()) for line in ledger.all())


def dead_of(stage: Stage, queue: str) -> list[dict[str, Any]]:
    return stage.client.entities("dead", queue).rows


@pytest.mark.parametrize("klass", ["process_entities"])
def test_workers_killed_at_random(stage: Stage, tmp_path: Path, klass: str) -> None:
    path, queue, dice = tmp_path / "lines", f"q-{klass}", random.Random(7)
    path.touch()
    stage.client.config_set("heartbeat", 2)
    stage.client.config_set("grace-period", 0)
    options = {"queues": [queue], "concurrency": 2}
    workers = [stage.start(**options) for _ in range(WORKERS)]
    killed: set[int] = set()
    each = PAYLOADS // ENTITIES
    for at in range(KILLS + 1):
        first, last = at * each // (KILLS + 1), (at + 1) * each // (KILLS + 1)
        numbers = {f"e{n}": list(range(first, last)) for n in range(ENTITIES)}
        done = len(lines(path))
        push(stage, path, klass, numbers)
        poll(
            lambda done=done: len(lines(path)) > done + ENTITIES // 3,
            what="some runs",
            seconds=300,
        )
        if at < KILLS:
            victim = workers.pop(dice.randrange(len(workers)))
            killed.update(victim.family())
            victim.signal("KILL")
            workers.append(stage.start(**options))

    def is_over() -> bool:
        [counts] = stage.client.entity_counts([queue])
        return counts.queued == counts.busy == 0

    poll(is_over, what="the end of all entities", seconds=600)
    dead = {
        (row["entity"], payload["n"])
        for row in stage.client.entities("dead", queue, 0, 1000).rows
        for _, payload in stage.client.entity(queue, row["entity"], 0, 1000).dying
    }
    figures = judge(lines(path), killed, dead, each)
    print(
        f"{ENTITIES} entities, {PAYLOADS} payloads, {KILLS} workers killed: {figures}"
    )
    assert figures["dead"] >= ENTITIES // FAILING
    assert violations_on(stage.server) == []


def judge(
    written: list[list[Any]], killed: set[int], dead: set[tuple[str, int]], each: int
) -> Counter[str]:
    """See that no entity ran twice at once, or back, and that all payloads are done.

    Return how many runs there were, cut short by a kill or failed, and of the payloads
    how many were done, done twice after a kill, and are dead.
    """
    open_runs: dict[str, tuple[int, list[int], bool]] = {}
    highest: dict[str, int] = defaultdict(lambda: -1)
    broken: set[str] = set()  # entities whose next run may have the same payloads again
    done: Counter[tuple[str, int]] = Counter()
    excused: set[tuple[str, int]] = set()
    figures: Counter[str] = Counter()
    for what, entity, pid, _, numbers, parent in written:
        payloads = [(entity, n) for n in numbers]
        # A run in a separate process may have ended, and its worker be killed before the
        # server heard of it.
        is_killed = bool({pid, parent} & killed)
        before = open_runs.pop(entity, None)
        if what == "begin":
            if before:
                assert before[2], f"{entity} ran twice at once"
                excused.update((entity, n) for n in before[1])
                broken.add(entity)
                figures["cut short"] += 1
            assert numbers == sorted(numbers)
            if entity not in broken:
                assert min(numbers) > highest[entity], f"{entity} went back"
            broken.discard(entity)
            highest[entity] = max(numbers)
            open_runs[entity] = (pid, numbers, is_killed)
            figures["runs"] += 1
            continue
        assert before, f"{entity} ran twice at once"
        assert before[:2] == (pid, numbers), f"{entity} ran twice at once"
        if what == "end":
            done.update(payloads)
        else:
            figures["failed"] += 1
        if before[2] or is_killed:  # its end may not have reached the server
            excused.update(payloads)
            broken.add(entity)
        elif what == "failed":
            broken.add(entity)
    assert all(is_killed for _, _, is_killed in open_runs.values())
    wanted = {(f"e{n}", k) for n in range(ENTITIES) for k in range(each)}
    assert wanted == done.keys() | dead
    twice = {key for key, times in done.items() if times > 1}
    assert twice <= excused, f"twice without a kill: {twice - excused}"
    assert dead & done.keys() <= excused, "dead and done without a kill"
    figures += Counter({"done": len(done), "done twice": len(twice), "dead": len(dead)})
    return figures
