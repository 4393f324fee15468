"""The outbox: puts written into a table in the transaction of the job's database.

They go to the server right after the commit, by the process that has written them, and are
taken out of the table. What is left, because that process died or the server was away, is
swept up by a worker. Each has one effect: the server keeps its reply for who delivers it
again, until it is told that the entry is gone (`lua/core/once.lua`).

An app of its own, with the only table that the package has:

    INSTALLED_APPS = [..., "django_qless", "django_qless.outbox"]
"""
