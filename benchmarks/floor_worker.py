"""Minimal waiting worker: BRPOP on a list, and the latency of each job."""

from __future__ import annotations

import os
import struct
import time

import redis


def main() -> None:
    client = redis.Redis.from_url(os.environ["BENCH_URL"])
    ticks = os.open(os.environ["BENCH_TICKS"], os.O_WRONLY | os.O_APPEND)
    while True:
        found = client.brpop("stamps", timeout=60)
        if found:
            os.write(ticks, struct.pack("<d", time.time() - float(found[1])))


if __name__ == "__main__":
    main()
