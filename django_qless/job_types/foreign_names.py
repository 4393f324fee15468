"""Names that other job queues use, and what to write here instead."""

from __future__ import annotations

#: Options that have no single counterpart; the others stand in the table of options.
OPTIONS = {
    "acks_late": "nothing: a job whose worker dies always runs again",
    "apply_after": "delay=60 (seconds), or run_at= (a moment)",
    "at_front": "priority=, where higher goes first",
    "bind": "current_job() inside the job",
    "concurrency": "max_concurrency of the queue, in QUEUES",
    "failure_ttl": "the option jobs-history of the core",
    "ignore_result": "result_ttl=0",
    "link": "after= on the job that is to follow",
    "max_age": "expires= (seconds)",
    "max_backoff": "backoff=exponential(…)",
    "min_backoff": "backoff=exponential(…)",
    "retry_backoff": "backoff=exponential(…)",
    "serializer": "JSON, the only one there is",
    "target_runtime": "MIDDLEWARE of the alias, which can report slow runs",
    "store_results": "result_ttl= (seconds); 0: no result is kept",
}

#: Methods of tasks and actors.
METHODS = {
    "aenqueue_at": ".using(run_at=…).aenqueue(…)",
    "apply": "the function itself, called",
    "apply_async": ".using(delay=…, queue=…).delay(…)",
    "call_local": "the function itself, called",
    "chunks": ".enqueue_many(…)",
    "configure": ".using(…)",
    "defer": ".delay(…)",
    "defer_async": ".adelay(…)",
    "delay_on_commit": ".delay(…), which waits for the commit anyhow",
    "enqueue_at": ".using(run_at=…).delay(…)",
    "enqueue_in": ".using(delay=…).delay(…)",
    "map": ".enqueue_many(…)",
    "message": ".args(…), with .enqueue_many(…)",
    "perform_async": ".delay(…)",
    "perform_in": ".using(delay=…).delay(…)",
    "s": ".args(…) with .enqueue_many(…), or a workflow()",
    "schedule": ".using(delay=…).delay(…)",
    "send": ".delay(…)",
    "send_with_options": ".using(…).delay(…)",
    "si": ".args(…) with .enqueue_many(…), or a workflow()",
    "signature": ".args(…) with .enqueue_many(…), or a workflow()",
    "starmap": ".enqueue_many(…)",
    "subtask": ".args(…) with .enqueue_many(…), or a workflow()",
}
