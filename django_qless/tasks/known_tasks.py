"""The Tasks of this process, and the import of further ones by name.

A Task of our backend registers itself when its module is imported. For an unknown name a
module is imported only if it lies inside an installed app, or is named by TASK_MODULES;
and only a Task of our backend is run.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.apps import apps

from django_qless import conf
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.tasks import frameworks

if TYPE_CHECKING:
    from django_qless.job_types.options import Options
    from django_qless.tasks.backend import QlessBackend

logger = logging.getLogger("django_qless.worker")

# By name, as declared: the first Task that was made of its function.
_tasks: dict[str, Any] = {}


def declare(task: Any, options: Options) -> JobType:
    """Let workers run this Task; return its type, with these options.

    Raises InvalidJob if another job has its name.
    """
    name = task.module_path
    known, job_type = _tasks.get(name), registry.get(name)
    if known is None or known.func is not task.func:
        known = _tasks[name] = task
    elif job_type is not None and job_type.options == options:
        return job_type
    aliases = getattr(known, "aliases", None) or ()
    return registry.register(
        JobType(
            name=name,
            function=task.func,
            options=options,
            binding=Binding.TASK,
            aliases=tuple(aliases),
            is_async=inspect.iscoroutinefunction(task.func),
            takes_context=bool(task.takes_context),
        )
    )


def is_declared(task: Any) -> bool:
    """Return whether the function of this Task is known as a Task."""
    known = _tasks.get(task.module_path)
    return known is not None and known.func is task.func


def declared(name: str) -> Any:
    """Return the Task of this name as it was declared."""
    return _tasks[name]


def type_of(task: Any) -> JobType:
    """Return the job type of a known Task."""
    # Registered when it became known, and types are never removed.
    return registry.get(task.module_path)  # type: ignore[return-value]


def in_module(task: Any) -> Any:
    """Return the Task that a module has in place of its function, or None."""
    module = sys.modules.get(task.func.__module__)
    found: Any = getattr(module, task.func.__qualname__, None)
    if not frameworks.is_task(found) or found.func is not task.func:
        return None
    return found


def is_task(name: str) -> bool:
    """Return whether this is the name of a known Task."""
    if not _tasks:
        return False
    job_type = registry.get(name)
    return job_type is not None and job_type.binding is Binding.TASK


def find(name: str, alias: str) -> JobType | None:
    """Return a Task's job type by name, for workers of an alias, or None."""
    known = registry.get(name)
    if known is not None:
        return known
    module, _, attribute = name.rpartition(".")
    ours = list(backends(alias))
    if not any(_may_import(module, backend) for backend in ours):
        return None
    try:
        found: Any = getattr(import_module(module), attribute, None)
    except (Exception, SystemExit) as error:
        # A missing module is no surprise; one that needs a missing module is.
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not _is_inside(module, missing):
            logger.exception("a Task's module cannot be imported: %s", module)
        return None
    known = registry.get(name)
    if known is not None or not frameworks.is_task(found):
        return known
    for backend in ours:
        if is_trusted(module, backend):
            return declare(found, backend.options_of(found))
    logger.error(
        "%s is a Task of TASKS[%r], which is no QlessBackend", name, found.backend
    )
    return None


def backends(alias: str) -> Iterator[QlessBackend]:
    """Yield the backends of TASKS whose Tasks may be in this alias of QLESS."""
    framework = frameworks.installed()
    if framework is None:
        return
    from django_qless.tasks.backend import QlessBackend

    handler = framework.handler
    for name in handler.settings:
        try:
            backend = handler[name]
        except Exception:
            logger.exception("TASKS[%r] cannot be used", name)
            continue
        if isinstance(backend, QlessBackend) and _may_serve(backend, alias):
            yield backend


def _may_serve(backend: QlessBackend, alias: str) -> bool:
    """Return whether Tasks of a backend may be in an alias, by its OPTIONS or by a route."""
    given = backend.qless.alias
    return alias == backend.home or (given is None and alias in conf.routes().values())


def is_trusted(module: str, backend: QlessBackend) -> bool:
    """Return whether TASK_MODULES names this module, or a package around it."""
    return any(_is_inside(module, each) for each in backend.qless.modules)


def _may_import(module: str, backend: QlessBackend) -> bool:
    """Return whether a worker may import this module to look for a Task."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts) or "__main__" in parts:
        return False
    if is_trusted(module, backend):
        return True
    return any(_is_inside(module, app.name) for app in apps.get_app_configs())


def _is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
