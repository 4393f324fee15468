"""The action that cancels all jobs of a state in a queue: a bulk change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext

from django_qless.admin import permissions
from django_qless.admin.actions.bulk import BulkAction
from django_qless.admin.views import Crumb
from django_qless.core import BadArgument, arguments
from django_qless.core.states import IN_QUEUE
from django_qless.operations.job_query import JobQuery

if TYPE_CHECKING:
    from django.http import HttpResponseBase, QueryDict

    from django_qless.operations.bulk import BulkRun


class EmptyQueue(BulkAction):
    """Cancels all jobs of a state in a queue. A queue's action."""

    permission = permissions.QUEUES
    verb = "empty"

    def _parents(self) -> list[Crumb]:
        queues = self.links.url("queue_changelist")
        queue = self.links.url("queue_change", self.name)
        return [Crumb(gettext("Queues"), queues), Crumb(self.name, queue)]

    def ask_about(self, query: QueryDict) -> HttpResponseBase:
        """Ask about the jobs of a state, by default the waiting ones."""
        state = query.get("state") or "waiting"
        if state not in IN_QUEUE:
            raise BadArgument(
                f"state must be one of {', '.join(IN_QUEUE)}, not "
                f"{arguments.quoted(state)}"
            )
        self.change_name = "cancel"
        run = self.run_on(JobQuery(queue=self.name, state=state))
        return self.ask_with(run, self.texts.form_class())

    def check_run(self, run: BulkRun) -> None:
        """Raise BadArgument unless the run empties this queue."""
        selection = run.selection or {}
        is_ours = (
            run.change_name == "cancel"
            and selection.keys() == {"queue", "state"}
            and selection["queue"] == self.name
            and selection["state"] in IN_QUEUE
        )
        if not is_ours:
            raise BadArgument(
                gettext("This form belongs to another page: select the jobs again")
            )

    def usual_next(self) -> str:
        """Return the queue's page."""
        return self.links.url("queue_change", self.name)
