"""Slots that move and primaries that die, under load.

    python -m tests.six_nodes.run --server redis --jobs 20000 --reshards 10 --failovers 5

prints what became of the jobs. It ends with 1 if anything was lost, ran again without a
failover, or went on too late.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.clusters import Node, has_slot, slot_of, slots_of
from tests.real_servers import available_kinds, poll
from tests.six_nodes import QUEUES, judge
from tests.six_nodes.judge import Failover, Outcome
from tests.six_nodes.scene import CONSUMERS, Scene

#: Seconds after a promotion in which all workers must run jobs of all queues again.
WITHIN = 10.0

#: Calls that are answered while a replica is behind.
UNSAFE = 4


class Trouble(NamedTuple):
    """How much of everything happens."""

    reshards: int
    failovers: int
    jobs: int = 0
    replicas: int = 1
    #: Seconds between two puts of a producer.
    pause: float = 0.01
    #: Primaries hang instead of being killed: their connections stay open.
    hang: bool = False


def under_load(
    folder: Path, kind: str, trouble: Trouble, pool: str = "prefork"
) -> Outcome:
    """Move slots and kill primaries; return what became of the jobs when all is done."""
    options = {"replicas": trouble.replicas, "pool": pool, "pause": trouble.pause}
    with Scene(folder, kind, **options) as scene:  # type: ignore[arg-type]
        scene.wait_for_consumers(0)
        failovers: list[Failover] = []
        moves: list[float] = []
        for number in range(trouble.reshards):
            moves.append(reshard(scene, number))
            if number * trouble.failovers // trouble.reshards == len(failovers):
                queue = QUEUES[number % len(QUEUES)]
                behind = len(failovers) % 2 == 0
                failovers.append(
                    fail_over(scene, queue, hang=trouble.hang, behind=behind)
                )
            # The load is spread over all of it.
            scene.wait_for_puts(trouble.jobs * (number + 1) // trouble.reshards)
        scene.finish()
        return outcome(scene, failovers, moves)


def reshard(scene: Scene, number: int) -> float:
    """Move the slot of an alias; return after how long its queue went on."""
    queue = QUEUES[-1 - number % len(QUEUES)]
    began = time.time()
    # Both ways, where the server knows both.
    if scene.kind == "valkey" and number % 2:
        scene.cluster.move_at_once(scene.prefixes[queue])
    else:
        scene.cluster.move(scene.prefixes[queue], at_once=100)
    consumers = {each for each in CONSUMERS if each[0] == queue}
    moved = time.time()
    waits = poll(
        lambda: scene.ledger.waits_since(moved, consumers),
        what=f"both workers run jobs of {queue} where its slot is now",
    )
    # A replica that has what came later has all that was moved, too.
    scene.wait_for_more(queue)
    return moved + max(waits.values()) - began


def fall_behind(scene: Scene, queue: str, primary: Node) -> list[Node]:
    """Stop the replicas of a primary while jobs are enqueued; return them.

    On one machine they are hardly behind: there would be nothing to lose.
    """
    replicas, before = scene.cluster.replicas_of(primary), scene.answers(queue)
    for replica in replicas:
        replica.hang()
    # What is on its way to them would still be read.
    primary.ask("CLIENT", "KILL", "TYPE", "replica")
    poll(
        lambda: scene.answers(queue) >= before + UNSAFE,
        what=f"calls for {queue} are answered without a replica",
    )
    return replicas


def fail_over(scene: Scene, queue: str, *, hang: bool, behind: bool) -> Failover:
    """Let the primary of a queue fail; bring it back when all goes on without it.

    Its replica may be `behind`: without what was acknowledged last.
    """
    prefixes = scene.prefixes
    primary = scene.cluster.of(prefixes[queue])
    hit = [each for each in QUEUES if has_slot(primary, slot_of(prefixes[each]))]
    replicas = fall_behind(scene, queue, primary) if behind else []
    began = time.time()
    if hang:
        primary.hang()
    else:
        primary.kill()
    for replica in replicas:
        replica.go_on()
    for each in hit:
        scene.cluster.of(prefixes[each])
    promoted = time.time()
    waits = scene.wait_for_consumers(promoted)
    if hang:
        primary.go_on()
        poll(lambda: not slots_of(primary), what="it is a primary no longer")
    else:
        primary.start()
    scene.cluster.wait_until_whole()
    over = time.time() if hang else promoted
    for each in QUEUES:
        scene.wait_for_more(each)
    return Failover(tuple(hit), began, promoted, over, max(waits.values()))


def outcome(scene: Scene, failovers: list[Failover], moves: list[float]) -> Outcome:
    """Return what became of the jobs."""
    ledger, acknowledged = scene.ledger, scene.acknowledged
    known = judge.elections(scene.cluster.nodes, failovers)
    again, unexplained = judge.repeated(ledger, known)
    ticks, left_out = judge.ticks(ledger)
    endless = dict.fromkeys(acknowledged.waiting, "no end")
    return Outcome(
        acknowledged=len(acknowledged.names),
        failovers=failovers,
        unplanned=len(known.unplanned),
        moves=moves,
        refused=dict(acknowledged.refused),
        lost=sorted(acknowledged.names - ledger.names),
        again=again,
        unexplained=unexplained,
        ticks=ticks,
        left_out=left_out,
        waited=acknowledged.waited,
        in_vain={**acknowledged.in_vain, **endless},
    )


def complaints(outcome: Outcome, trouble: Trouble) -> list[str]:
    """Return what is not as it must be, in words."""
    found = [
        ("jobs ran again without a failover", outcome.unexplained),
        ("ticks were left out", outcome.left_out),
    ]
    if trouble.replicas:
        found += [
            ("acknowledged jobs were lost", outcome.lost),
            ("waits were in vain", list(outcome.in_vain)),
        ]
    if outcome.longest > WITHIN:
        found.append(("workers went on too late", [f"{outcome.longest:.1f} s"]))
    return [f"{what}: {which}" for what, which in found if which]


def main() -> int:
    """Run it as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", choices=available_kinds(), default="valkey")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--reshards", type=int, default=10)
    parser.add_argument("--failovers", type=int, default=5)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.01)
    parser.add_argument("--hang", action="store_true", help="instead of kill -9")
    chosen = parser.parse_args()
    trouble = Trouble(
        *(chosen.reshards, chosen.failovers, chosen.jobs),
        *(chosen.replicas, chosen.pause, chosen.hang),
    )
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="six-nodes-") as folder:
        found = under_load(Path(folder), chosen.server, trouble)
    print(f"{chosen.server}, {trouble}")
    print(f"{time.time() - began:.0f} s, load at the end {os.getloadavg()[0]:.1f}")
    print(found)
    complained = complaints(found, trouble)
    print("\n".join(complained) or "as it must be")
    return 1 if complained else 0


if __name__ == "__main__":
    sys.exit(main())
