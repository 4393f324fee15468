"""What is asked of workers: to take no more jobs, to go on, to end, to show its stacks.

A worker hears it with the reply to its next heartbeat, at the latest after ten seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_qless.admin import permissions, words
from django_qless.admin.actions.base import Action
from django_qless.admin.listing import number
from django_qless.core import WorkerNotFound, WrongState
from django_qless.worker.serving import is_alive

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.admin.presenters.worker import WorkerRow
    from django_qless.core import Order


class WorkerAction(Action):
    """Asks one worker for something."""

    permission = permissions.WORKERS
    order: ClassVar[Order]
    asked: ClassVar[_StrOrPromise]
    """What was done, once it is: with %s for the worker."""

    def act(self, fields: dict[str, Any]) -> str:
        """Leave the order for the worker; raises WorkerNotFound."""
        self.client.order(self.name, self.order)
        return str(self.asked) % self.name


class Quiet(WorkerAction):
    """Have it take no more jobs; those that it runs go on."""

    verb, order = "quiet", "quiet"
    label = gettext_lazy("Quiet")
    asked = gettext_lazy("Asked worker %s to take no more jobs.")

    def question(self) -> str:
        """Return what is asked."""
        return _("Have worker %s take no more jobs? Those that it runs go on.") % (
            self.name
        )


class Resume(WorkerAction):
    """Have it take jobs again."""

    verb, order = "resume", "resume"
    label = gettext_lazy("Resume")
    asked = gettext_lazy("Asked worker %s to take jobs again.")

    def question(self) -> str:
        """Return what is asked."""
        return _("Have worker %s take jobs again?") % self.name


class Dump(WorkerAction):
    """Have it keep a dump of its stacks, which its page shows."""

    verb, order = "dump", "dump"
    label = gettext_lazy("Dump stacks")
    asked = gettext_lazy(
        "Asked worker %s for its stacks: they are shown here within seconds."
    )

    def question(self) -> str:
        """Return what is asked."""
        return _(
            "Have worker %s show what it is doing? It does not disturb its jobs."
        ) % (self.name)


class Stop(WorkerAction):
    """Have it end."""

    verb, order = "stop", "stop"
    label = gettext_lazy("Stop")
    danger = True
    asked = gettext_lazy("Asked worker %s to end.")

    def question(self) -> str:
        """Return what is asked, and what becomes of its jobs."""
        return _(
            "Have worker %s end? It takes no more jobs; those that it runs may end within "
            "its shutdown timeout, and are handed back after it. Asked twice, it ends at "
            "once. Nothing here can start it again."
        ) % (self.name)

    def usual_next(self) -> str:
        """Return the list: the worker's page goes with it."""
        return self.links.url("worker_changelist")


class Forget(Action):
    """Take one off the list that has been silent for long: it will not come back."""

    permission = permissions.WORKERS
    verb = "forget"
    label = gettext_lazy("Forget")
    danger = True

    def question(self) -> str:
        """Return what is asked, and what becomes of its jobs."""
        return _(
            "Take worker %s off the list? What it still holds is handed to others when "
            "the locks expire, whether it is on the list or not."
        ) % (self.name)

    def act(self, fields: dict[str, Any]) -> str:
        """Do it; raises WorkerNotFound, and WrongState if the worker lives."""
        worker = next(
            (each for each in self.client.workers() if each.name == self.name), None
        )
        if worker is None:
            raise WorkerNotFound(_("There is no worker %s.") % self.name)
        if is_alive(worker, self.now):
            raise WrongState(
                _(
                    "Worker %(name)s gave a sign of life %(span)s ago, and would be on "
                    "the list again in a moment. Stop it instead."
                )
                % {
                    "name": self.name,
                    "span": words.span(max(0.0, self.now - worker.beat)),
                }
            )
        self.client.deregister(self.name)
        return _("Took worker %s off the list.") % self.name

    def usual_next(self) -> str:
        """Return the list: the worker's page is gone."""
        return self.links.url("worker_changelist")


class AllWorkersAction(Action):
    """Asks all living workers for something."""

    permission = permissions.WORKERS
    order: ClassVar[Order]
    effect: ClassVar[_StrOrPromise]
    """What follows, as a sentence."""

    def question(self) -> str:
        """Return what is asked, and of how many."""
        count = len(self.alive())
        asked = ngettext("Ask %s worker.", "Ask all %s workers that are alive.", count)
        return f"{asked % number(count)} {self.effect}"

    def act(self, fields: dict[str, Any]) -> str:
        """Leave the order for each worker that is alive."""
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
        """Return the names of those that gave a sign of life lately."""
        now = self.now
        return [each.name for each in self.client.workers() if is_alive(each, now)]


class QuietAll(AllWorkersAction):
    """Have all take no more jobs, before a deployment for example."""

    verb, order = "quiet_all", "quiet"
    label = gettext_lazy("Quiet all")
    effect = gettext_lazy(
        "They take no more jobs until they are told to go on; what they run goes on."
    )


class ResumeAll(AllWorkersAction):
    """Have all take jobs again."""

    verb, order = "resume_all", "resume"
    label = gettext_lazy("Resume all")
    effect = gettext_lazy("They take jobs again.")


class StopAll(AllWorkersAction):
    """Have all end."""

    verb, order = "stop_all", "stop"
    danger = True
    label = gettext_lazy("Stop all")
    effect = gettext_lazy(
        "They end; what they run may end within their shutdown timeout, and is handed "
        "back after it. Nothing here can start them again."
    )


ALL: tuple[type[Action], ...] = (Quiet, Resume, Dump, Stop, Forget)
OF_ALL: tuple[type[Action], ...] = (QuietAll, ResumeAll, StopAll)


def of(worker: WorkerRow) -> list[type[Action]]:
    """Return what can be asked of a worker as it is now."""
    if worker.state == "ended":
        return []
    if not worker.alive:
        return [Forget]
    if worker.state in ("draining", "stopping"):
        return [Dump, Stop]
    taking: dict[str, list[type[Action]]] = {"running": [Quiet], "quiet": [Resume]}
    return [*taking.get(worker.state, [Quiet, Resume]), Dump, Stop]
