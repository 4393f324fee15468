"""Processes that commit rows and jobs: killed at random moments, or while the server is away.

python -m tests.outbox.producer kill ROUNDS SEED     kills one for each round
python -m tests.outbox.producer load NAME PAUSE      until its input is closed
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time

import django


def order(producer: str, number: int) -> None:
    """Commit a row together with the job that it owes."""
    from django.db import transaction

    from tests.outbox.shop.models import Order, ship

    with transaction.atomic():
        Order.objects.create(number=number, producer=producer)
        ship.delay(producer, number)


def kill(rounds: int, seed: int) -> None:
    """Fork a producer for each round, and kill it at a random moment around its commit."""
    chance = random.Random(seed)
    whole: list[float] = []
    for number in range(rounds):
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            order("killed", number)
            os._exit(0)
        if number % 10 == 0:
            # Some live, which shows how long it takes.
            os.waitpid(pid, 0)
            whole = sorted([*whole, time.monotonic() - began])
            continue
        time.sleep(chance.uniform(0, 1.2 * whole[len(whole) // 2]))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def load(producer: str, pause: float) -> None:
    """Commit one after the other."""
    number = 0
    first = int(producer) * 1_000_000
    while not select.select([sys.stdin], [], [], pause)[0]:
        order(producer, first + number)
        number += 1
    print(number)


if __name__ == "__main__":
    django.setup()
    if sys.argv[1] == "kill":
        kill(int(sys.argv[2]), int(sys.argv[3]))
    else:
        load(sys.argv[2], float(sys.argv[3]))
