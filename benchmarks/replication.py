"""What REPLICAS costs: a put and a batch of 1,000 with and without, in turn.

python -m benchmarks.replication [--rounds 7]

The ratio is that of one round's medians: both kinds have the same load beside them.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Sequence

import redis

from django_qless.core import Client, Put
from django_qless.core.replication import Replication
from tests.real_servers import Server, poll

_numbers = itertools.count()


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def put(client: Client) -> None:
    """Put one job."""
    client.put("", "q", f"j{next(_numbers)}", "k", "{}")


def put_thousand(client: Client) -> None:
    """Put a batch."""
    client.put_many(
        "", [Put(f"j{next(_numbers)}", "q", "k", "{}") for _ in range(1000)]
    )


def medians(
    clients: Sequence[Client], call: Callable[[Client], None], times: int
) -> list[float]:
    """Return the median of each client in milliseconds, all called in turn."""
    found: list[list[float]] = [[] for _ in clients]
    for _ in range(times):
        for client, each in zip(clients, found, strict=True):
            each.append(seconds(lambda client=client: call(client)) * 1000)  # type: ignore[misc]
    return [statistics.median(each) for each in found]


def main() -> None:
    """Start a primary with a replica, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with (
        Server("valkey", tcp=True) as primary,
        Server("valkey", "--replicaof", "127.0.0.1", str(primary.port)),
    ):
        server = redis.Redis(port=primary.port)
        server.set("any", 1)
        poll(lambda: server.wait(1, 1000) == 1, what="the replica follows")
        clients = [Client(server), Client(server, replication=Replication(1, 60))]
        for name, call, times in (("put", put, 400), ("1,000 puts", put_thousand, 10)):
            medians(clients, call, 10)
            found = [medians(clients, call, times) for _ in range(rounds)]
            without, waiting = (
                statistics.median(each) for each in zip(*found, strict=True)
            )
            ratios = sorted(after / before for before, after in found)
            print(
                f"{name}: {without:.2f} ms, with REPLICAS {waiting:.2f} ms; ratio "
                f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} "
                f"in {rounds} rounds)"
            )


if __name__ == "__main__":
    main()
