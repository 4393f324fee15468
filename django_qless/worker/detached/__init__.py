"""Detached jobs: runs that outlive the worker that has started them.

handover.py   in the parent of a worker: starts a runner and hands it the job
runner.py     the runner: a worker that has this one job
directory.py  where the files are by which a host counts the runs of a queue
lifetime.py   whether runs outlive the worker here: containers, service managers
"""
