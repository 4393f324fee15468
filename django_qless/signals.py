"""What other apps may listen to. Nothing is sent, and nothing is paid, without a receiver."""

from __future__ import annotations

from django.dispatch import Signal

#: A job has been put, after the commit if it waited for one. Sender is the job's type
#: (`django_qless.registry.JobType`), `handle` its JobHandle.
job_enqueued = Signal()
