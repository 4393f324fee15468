"""A job queue for Django whose every state change is one atomic Lua call.

    from django_qless import job, current_job, Retry, Fail

Names are imported when they are first used, so that `import django_qless.core` works
where Django is not installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_qless.declare.decorators import job as job
    from django_qless.exceptions import BatchFailure as BatchFailure
    from django_qless.exceptions import Fail as Fail
    from django_qless.exceptions import Interrupted as Interrupted
    from django_qless.exceptions import JobLost as JobLost
    from django_qless.exceptions import JobTimeout as JobTimeout
    from django_qless.exceptions import QlessError as QlessError
    from django_qless.exceptions import Retry as Retry
    from django_qless.exceptions import ShuttingDown as ShuttingDown
    from django_qless.job_types.backoff import exponential as exponential
    from django_qless.job_types.current import CurrentJob as CurrentJob
    from django_qless.job_types.current import current_job as current_job
    from django_qless.job_types.entity import EntityHandle as EntityHandle
    from django_qless.job_types.handle import JobHandle as JobHandle
    from django_qless.operations.entities import entities as entities
    from django_qless.operations.objects import config as config
    from django_qless.operations.objects import failures as failures
    from django_qless.operations.objects import jobs as jobs
    from django_qless.operations.objects import queues as queues
    from django_qless.operations.objects import recurring as recurring
    from django_qless.operations.objects import tags as tags
    from django_qless.operations.objects import tracked as tracked
    from django_qless.operations.objects import workers as workers
    from django_qless.workflows.builder import batch as batch
    from django_qless.workflows.builder import workflow as workflow
    from django_qless.workflows.handle import WorkflowHandle as WorkflowHandle
    from django_qless.workflows.wait_all import await_all as await_all
    from django_qless.workflows.wait_all import wait_all as wait_all

__version__ = "0.1.0"

_HOMES = {
    "job": "declare.decorators",
    "exponential": "job_types.backoff",
    "current_job": "job_types.current",
    "CurrentJob": "job_types.current",
    "Retry": "exceptions",
    "Fail": "exceptions",
    "BatchFailure": "exceptions",
    "EntityHandle": "job_types.entity",
    "entities": "operations.entities",
    "Interrupted": "exceptions",
    "JobLost": "exceptions",
    "JobTimeout": "exceptions",
    "ShuttingDown": "exceptions",
    "QlessError": "exceptions",
    "JobHandle": "job_types.handle",
    "WorkflowHandle": "workflows.handle",
    "workflow": "workflows.builder",
    "batch": "workflows.builder",
    "wait_all": "workflows.wait_all",
    "await_all": "workflows.wait_all",
    "queues": "operations.objects",
    "jobs": "operations.objects",
    "workers": "operations.objects",
    "failures": "operations.objects",
    "recurring": "operations.objects",
    "config": "operations.objects",
    "tags": "operations.objects",
    "tracked": "operations.objects",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
