"""What can be done to a recurring job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin import permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.presenters.schedule import declared_in_code
from django_qless.admin.views import Missing
from django_qless.core import Schedule
from django_qless.schedules import declared

if TYPE_CHECKING:
    from django.http import HttpResponseBase


class OnSchedule(Action):
    """An action on a recurring job that is there."""

    permission = permissions.RECURRING

    @cached_property
    def schedule(self) -> Schedule:
        """What it is about. Raises Missing."""
        found = self.client.schedule_get(self.name)
        if found is None:
            raise Missing(_("There is no recurring job of this id (any more)."))
        return found

    def answer(self) -> HttpResponseBase:
        """Ask, or do it, if it is there."""
        self.must_be_there()
        return super().answer()

    def must_be_there(self) -> None:
        """Raise Missing if there is nothing to act on."""
        self.schedule  # noqa: B018 (asking is what raises)


class RunNow(OnSchedule):
    """Puts a job now, beside the rhythm."""

    verb = "run"
    label = gettext_lazy("Run now")

    def question(self) -> str:
        """Return what is asked."""
        return _("Put a job of “%s” now, beside its rhythm?") % self.name

    def act(self, fields: dict[str, Any]) -> str:
        """Put it; return its id."""
        jid = self.client.schedule_run(self.name)
        return _("Put the job %(jid)s of “%(name)s”.") % {
            "jid": jid,
            "name": self.name,
        }


class Pause(OnSchedule):
    """Lets it put nothing until it is resumed."""

    verb = "pause"
    label = gettext_lazy("Pause")

    def question(self) -> str:
        """Return what is asked."""
        return (
            _("Pause “%s”? It puts no jobs until it is resumed; what was put stays.")
            % self.name
        )

    def act(self, fields: dict[str, Any]) -> str:
        """Pause it."""
        if not self.client.schedule_pause([self.name]):
            return _("“%s” was paused already.") % self.name
        return _("Paused “%s”.") % self.name


class Resume(OnSchedule):
    """Lets it recur again."""

    verb = "resume"
    label = gettext_lazy("Resume")

    def question(self) -> str:
        """Return what is asked."""
        return (
            _(
                "Resume “%s”? It goes on in its rhythm; what fell due meanwhile is not "
                "made up for."
            )
            % self.name
        )

    def act(self, fields: dict[str, Any]) -> str:
        """Resume it."""
        if not self.client.schedule_resume([self.name]):
            return _("“%s” was not paused.") % self.name
        return _("Resumed “%s”.") % self.name


class Remove(OnSchedule):
    """Ends it."""

    verb = "remove"
    label = gettext_lazy("Remove")
    danger = True

    def question(self) -> str:
        """Return what is asked, and how it can come back."""
        if self.name in declared_in_code(self.alias):
            return (
                _(
                    "Remove “%s”? The jobs that it has put stay. The code declares it: "
                    "it stays away until it is reset."
                )
                % self.name
            )
        return (
            _("Remove “%s”? The jobs that it has put stay. This cannot be undone.")
            % self.name
        )

    def act(self, fields: dict[str, Any]) -> str:
        """Remove it."""
        self.client.schedule_remove([self.name])
        return _("Removed “%s”.") % self.name

    def next_url(self) -> str:
        """Return the list: the page that it was done on is gone."""
        if self.request.method == "POST":
            return self.links.url("recurring_changelist")
        return super().next_url()


class Reset(OnSchedule):
    """Makes it what the code declares, also if it was removed."""

    verb = "reset"
    label = gettext_lazy("Reset to what the code declares")
    danger = True

    def question(self) -> str:
        """Return what is asked."""
        return (
            _(
                "Make “%s” what the code declares? What was changed by hand is lost, and "
                "if it was paused or removed, it recurs again."
            )
            % self.name
        )

    def must_be_there(self) -> None:
        """Raise Missing if the code declares nothing of the kind."""
        self.client.schedule_get(self.name)  # A lost server is told by now.
        if self.name not in declared_in_code(self.alias):
            raise Missing(_("The code declares no recurring job of this id."))

    def act(self, fields: dict[str, Any]) -> str:
        """Reset it."""
        declared.reset(self.alias, self.name)
        return _("“%s” is what the code declares again.") % self.name
