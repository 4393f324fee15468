"""What REPLICAS costs: a put and a batch of 1,000 with and without, in turn.

python -m benchmarks.replication
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import redis

from django_qless.core import Client, Put
from django_qless.core.replication import Replication
from tests.sentinels import Watched


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    """Start a primary with a replica, measure, print."""
    with Watched() as group:
        server = redis.Redis(port=group.primary.port)
        clients = [Client(server), Client(server, replication=Replication(1, 5))]
        puts: list[list[float]] = [[], []]
        batches: list[list[float]] = [[], []]
        for at in range(-10, 1500):
            for client, times in zip(clients, puts, strict=True):
                jid = f"{id(client)}.{at}"
                took = seconds(lambda: client.put("", "q", jid, "k", "{}"))  # noqa: B023
                if at >= 0:
                    times.append(took)
        for at in range(30):
            for client, times in zip(clients, batches, strict=True):
                items = [
                    Put(f"{id(client)}:{at}:{n}", "q", "k", "{}") for n in range(1000)
                ]
                times.append(seconds(lambda: client.put_many("", items)))  # noqa: B023
        for name, (without, waiting) in {"put": puts, "1,000 puts": batches}.items():
            medians = [statistics.median(times) * 1000 for times in (without, waiting)]
            print("{}: {:.2f} ms, with REPLICAS {:.2f} ms".format(name, *medians))


if __name__ == "__main__":
    main()
