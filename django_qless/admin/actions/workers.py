"""Actions on workers: quiet, resume, stop, forget.

A worker receives a command with the reply to its next heartbeat, within ten seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_qless.admin import formatting, permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.formatting import number
from django_qless.core import WorkerNotFound, WrongState
from django_qless.operations.workers import is_alive

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.admin.components.worker_table import WorkerRow
    from django_qless.core import Order


class WorkerAction(Action):
    """Sends a command to one worker."""

    permission = permissions.WORKERS
    order: ClassVar[Order]

    def perform(self, fields: dict[str, Any]) -> None:
        """Leave the command for the worker; raises WorkerNotFound."""
        self.client.order(self.name, self.order)


class Quiet(WorkerAction):
    """Makes a worker take no more jobs; those that it runs go on."""

    verb, order = "quiet", "quiet"
    label = _("Quiet")
    prompt = _(
        "Quiet worker %(name)s? It takes no more jobs; those that it runs go on."
    )
    success = _("Asked worker %(name)s to take no more jobs.")


class Resume(WorkerAction):
    """Makes a worker take jobs again."""

    verb, order = "resume", "resume"
    label = _("Resume")
    prompt = _("Resume worker %(name)s? It takes jobs again.")
    success = _("Asked worker %(name)s to take jobs again.")


class Stop(WorkerAction):
    """Makes a worker end."""

    verb, order = "stop", "stop"
    label = _("Stop")
    danger = True
    prompt = _(
        "Stop worker %(name)s? It takes no more jobs; those that it runs may finish "
        "within its shutdown timeout and are returned to their queues after it. Asked "
        "twice, it stops at once. It cannot be started again from here."
    )
    success = _("Asked worker %(name)s to stop.")
    back_to_list = True


class Forget(Action):
    """Removes a worker from the list that has been silent for long."""

    permission = permissions.WORKERS
    verb = "forget"
    label = _("Forget")
    danger = True
    prompt = _(
        "Remove worker %(name)s from the list? The jobs that it still holds go to other "
        "workers when their locks expire, whether it is on the list or not."
    )
    success = _("Removed worker %(name)s from the list.")
    back_to_list = True

    def perform(self, fields: dict[str, Any]) -> None:
        """Forget it; raises WorkerNotFound, and WrongState if the worker is alive."""
        found = (each for each in self.client.workers() if each.name == self.name)
        worker = next(found, None)
        if worker is None:
            raise WorkerNotFound(gettext("There is no worker %s.") % self.name)
        if is_alive(worker, self.now):
            raise WrongState(
                gettext(
                    "Worker %(name)s sent a heartbeat %(span)s ago, so it would be back on "
                    "the list at once. Stop it instead."
                )
                % {
                    "name": self.name,
                    "span": formatting.span(max(0.0, self.now - worker.beat)),
                }
            )
        self.client.deregister(self.name)


class AllWorkersAction(Action):
    """Sends a command to all workers that are alive."""

    permission = permissions.WORKERS
    order: ClassVar[Order]
    effect: ClassVar[_StrOrPromise]
    """The consequence, as a sentence."""

    def question(self) -> str:
        """Return the question, with the number of workers."""
        count = len(self.alive())
        asked = ngettext("Ask %s worker.", "Ask all %s workers that are alive.", count)
        return f"{asked % number(count)} {self.effect}"

    def act(self, fields: dict[str, Any]) -> str:
        """Leave the command for each worker that is alive."""
        asked = 0
        for name in self.alive():
            try:
                self.client.order(name, self.order)
            except WorkerNotFound:
                continue  # It has just ended.
            asked += 1
        done = ngettext(
            "Asked %(count)s worker: %(order)s.",
            "Asked %(count)s workers: %(order)s.",
            asked,
        )
        return done % {"count": number(asked), "order": str(self.label).lower()}

    def alive(self) -> list[str]:
        """Return the names of the workers that sent a heartbeat lately."""
        now = self.now
        return [each.name for each in self.client.workers() if is_alive(each, now)]


class QuietAll(AllWorkersAction):
    """Makes all take no more jobs, before a deployment for example."""

    verb, order = "quiet_all", "quiet"
    label = _("Quiet all")
    effect = _(
        "They take no more jobs until they are resumed; those that they run go on."
    )


class ResumeAll(AllWorkersAction):
    """Makes all take jobs again."""

    verb, order = "resume_all", "resume"
    label = _("Resume all")
    effect = _("They take jobs again.")


class StopAll(AllWorkersAction):
    """Makes all end."""

    verb, order = "stop_all", "stop"
    danger = True
    label = _("Stop all")
    effect = _(
        "They stop; the jobs that they run may finish within the shutdown timeout and "
        "are returned to their queues after it. They cannot be started again from here."
    )


ALL: tuple[type[Action], ...] = (Quiet, Resume, Stop, Forget)
OF_ALL: tuple[type[Action], ...] = (QuietAll, ResumeAll, StopAll)


def offered(worker: WorkerRow) -> list[type[Action]]:
    """Return the actions that make sense for a worker in its state."""
    if worker.state == "ended":
        return []
    if not worker.alive:
        return [Forget]
    if worker.state in ("draining", "stopping"):
        return [Stop]
    taking: dict[str, list[type[Action]]] = {"running": [Quiet], "quiet": [Resume]}
    return [*taking.get(worker.state, [Quiet, Resume]), Stop]
