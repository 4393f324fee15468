"""Detached jobs: runs that outlive the worker that has started them.

    limits.py       how many of a queue may run at once on a host
    records.py      the folder of each run: what is known of it on disk
    starter.py      in a child of a worker: starts a run
    parent.py       a small process of each run: starts the job's process, waits for it,
                    records its end, and kills it when the lock is not renewed any more
    job.py          the job's process
    watcher.py      in a worker's parent: renews the locks, tells the server, settles
    settlements.py  what becomes of a job, by the record of its run
    lifetime.py     whether runs outlive the worker here: containers, service managers

A run and its workers find each other by its folder only. Each of them may be killed, and the
machine may be switched off, at any time.
"""

from __future__ import annotations
