"""Signals of jobs and workers. Without a receiver they are not sent and cost nothing.

Those of jobs have the job's type (`django_qless.job_types.registry.JobType`) as their
sender: connect a receiver to all jobs, and look at `job.name`. They are sent in the process
that runs the job: what a receiver raises is logged and changes nothing, and its database
connections are looked after as a job's are. Receivers may be coroutine functions; each call
of one runs in a separate event loop. A receiver gets these, by name:

    job        the CurrentJob: jid, queue, name, attempt, tags, data …
    exception  what the job raised, or None if its process was killed
    group      the failure group
    message    what is kept of the failure: mostly the traceback, as text
"""

from __future__ import annotations

from django.dispatch import Signal

#: A job has been enqueued, after the commit if it waited for one. Sent in the process that
#: enqueued it, with `handle`: its JobHandle.
job_enqueued = Signal()

#: A run is about to begin. With `job`.
job_started = Signal()

#: A run has ended well, a moment before it is reported to the server. With `job`, and
#: `result`: the return value.
job_completed = Signal()

#: A run has failed, and there will be no other. With `job`, `exception`, `group`, `message`.
#: If its worker is gone and no retry is left, the one that finds its expired lock sends it.
job_failed = Signal()

#: A run has failed, and there will be another. With `job`, `exception`, `group`, `message`,
#: and `delay`: the seconds until then.
job_retried = Signal()

#: Entities of a run have used up their retries; the first payload of each goes to the
#: dead. If the run's process was killed, another one of the worker sends it; if its worker
#: is gone, the one that finds its expired lock. Sender is the job's type, `batch` is
#: {entity: payloads}, `errors` {entity: message}.
retries_exhausted = Signal()

#: The job was taken away while it ran, or the server refused to take note of its end: it
#: was cancelled, or its lock was lost and another worker may run it. With `job`.
job_lost = Signal()

#: A process of a worker was given jobs in one message, and is about to run the first of
#: them. Sent in that process. Receivers must be connected before the worker starts.
#: Sender is a class of the worker; `jobs` (CurrentJobs, in the order in which they run),
#: `worker` (its name) and `alias`.
batch_started = Signal()

#: The process has done with all of these jobs: they have ended, or were handed back. Not sent
#: if the process was killed. As batch_started, and `ran`: how many of them have run.
batch_finished = Signal()

#: A worker begins; sent in its parent process, once for each alias. Sender is a class of the
#: worker; `worker` is its name, `alias` that of the namespace.
worker_started = Signal()

#: A process of a worker that runs jobs begins: the place to start threads, which do not
#: survive a fork. As worker_started.
worker_process_started = Signal()

#: A worker has ended; as worker_started.
worker_stopped = Signal()
