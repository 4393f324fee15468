"""What helps against each kind of finding."""

from __future__ import annotations

_AGAIN = "`qless_jobs move` enqueues the job again"
_REPORT = (
    "No job is lost by it. If no other program writes into this namespace, report it"
)

#: What helps, by the kind of a finding.
REMEDIES = {
    "unreadable": "another program has written into this namespace, or the server lost a "
    "part of its data: `qless_jobs cancel` takes a damaged job away",
    "record": f"{_AGAIN}, `qless_jobs cancel` takes it away",
    "history": _REPORT,
    "place": f"{_AGAIN} and into one place, `qless_jobs cancel` takes it away",
    "lock": "`qless_jobs move` to its queue takes the job from its worker, and it runs again",
    "held": f"the job will not start by itself: {_AGAIN}, with nothing that it waits for",
    "link": _REPORT,
    "circle": "none of these jobs will start: cancel one of them",
    "key": "another program, or another version of django_qless, has written it: delete it "
    "if nothing needs it",
    "ready": "workers that serve queues by globs do not look there: put a job into the queue",
    "tag": _REPORT,
    "failure": "`qless_jobs retry` enqueues the job again, `qless_jobs cancel` takes it away",
    "counter": _REPORT,
    "completed": _REPORT,
    "unique": "jobs with this key may be taken for doubles of one that is gone: delete the "
    "key named unique: and this key",
    "canceled": _REPORT,
    "spawned": "what depends on the parent may wait for ever: `qless_jobs move` enqueues the "
    "dependents again",
    "letter": "report it: parts of what the namespace has are not looked at",
    "schedule": "`qless_recurring remove` takes the schedule away; `qless_recurring reset` "
    "restores one that code declares",
    "limit": "`qless_config` with the limit of this job type, set to what it is, has it looked "
    "at again",
    "entity": "`qless_entities` shows the entity; push a payload of it again",
    "workflow": "its figures are wrong, its jobs go on: retry or cancel it",
}
