"""A job queue for Django whose every state change is one atomic Lua call.

    from django_qless import job, current_job, Retry, Fail

Names are imported when they are first used, so that `import django_qless.core` works
where Django is not installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_qless.core.exceptions import DuplicateJob as DuplicateJob
    from django_qless.current import CurrentJob as CurrentJob
    from django_qless.current import current_job as current_job
    from django_qless.decorators import job as job
    from django_qless.exceptions import Fail as Fail
    from django_qless.exceptions import Interrupted as Interrupted
    from django_qless.exceptions import JobLost as JobLost
    from django_qless.exceptions import JobTimeout as JobTimeout
    from django_qless.exceptions import QlessError as QlessError
    from django_qless.exceptions import Retry as Retry
    from django_qless.exceptions import ShuttingDown as ShuttingDown
    from django_qless.handle import JobHandle as JobHandle
    from django_qless.options.backoff import exponential as exponential
    from django_qless.overview import config as config
    from django_qless.overview import failures as failures
    from django_qless.overview import jobs as jobs
    from django_qless.overview import queues as queues
    from django_qless.overview import recurring as recurring
    from django_qless.overview import tags as tags
    from django_qless.overview import tracked as tracked
    from django_qless.overview import workers as workers
    from django_qless.workflows.building import batch as batch
    from django_qless.workflows.building import workflow as workflow
    from django_qless.workflows.handle import WorkflowHandle as WorkflowHandle
    from django_qless.workflows.waits import await_all as await_all
    from django_qless.workflows.waits import wait_all as wait_all

__version__ = "0.1.0"

_HOMES = {
    "job": "decorators",
    "exponential": "options.backoff",
    "DuplicateJob": "core.exceptions",
    "current_job": "current",
    "CurrentJob": "current",
    "Retry": "exceptions",
    "Fail": "exceptions",
    "Interrupted": "exceptions",
    "JobLost": "exceptions",
    "JobTimeout": "exceptions",
    "ShuttingDown": "exceptions",
    "QlessError": "exceptions",
    "JobHandle": "handle",
    "WorkflowHandle": "workflows.handle",
    "workflow": "workflows.building",
    "batch": "workflows.building",
    "wait_all": "workflows.waits",
    "await_all": "workflows.waits",
    "queues": "overview",
    "jobs": "overview",
    "workers": "overview",
    "failures": "overview",
    "recurring": "overview",
    "config": "overview",
    "tags": "overview",
    "tracked": "overview",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
