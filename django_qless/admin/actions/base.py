"""The base of all actions: confirm, check, perform, log, report, redirect.

An action declares what it says, and implements `perform`:

    class Resume(Action):
        verb = "resume"
        label = _("Resume")
        prompt = _("Resume “%(name)s”?")
        success = _("Resumed “%(name)s”.")

        def perform(self, fields):
            self.client.unpause(self.name)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpResponseRedirect
from django.utils.functional import cached_property
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin import formatting
from django_qless.admin.components.audit_log import record, storable
from django_qless.admin.views import View
from django_qless.core import ConnectionLost, QlessError

if TYPE_CHECKING:
    from django.db.models import Model
    from django.http import HttpResponseBase
    from django.utils.functional import _StrOrPromise


class Action(View):
    """Changes the object that the URL names.

    GET shows a page that asks (with the fields of the form, if there is one) and changes
    nothing; POST does it, writes to the audit log, and goes back to `next`.
    """

    template = "action.html"
    allowed = ("GET", "HEAD", "POST")
    verb: ClassVar[str]
    """The last part of the URL, and the end of its name."""
    label: ClassVar[_StrOrPromise]
    """The label of the button."""
    confirm: ClassVar[_StrOrPromise] = ""
    """The label on the page that asks, if `label` could be misread there."""
    danger: ClassVar[bool] = False
    """True if it cannot be undone: pages ask before they do it."""
    form_class: ClassVar[type[forms.Form]] = forms.Form
    prompt: ClassVar[_StrOrPromise] = gettext_lazy("%(action)s: %(name)s?")
    """The question, with the consequences; filled with `words`."""
    success: ClassVar[_StrOrPromise] = ""
    """The message when it is done; filled with `words` and the form's fields."""
    unchanged: ClassVar[_StrOrPromise] = ""
    """The message if `perform` returns False: nothing had to be done."""
    back_to_list: ClassVar[bool] = False
    """True if it goes back to the list: the object's page may be gone."""

    def initial(self) -> dict[str, Any]:
        """Return the initial values of the form; may raise QlessError and Missing."""
        return {}

    def check(self) -> None:
        """Raise Missing or PermissionDenied if there is nothing to act on."""

    def perform(self, fields: dict[str, Any]) -> bool | None:
        """Perform the action with the form's fields. Raises QlessError."""
        raise NotImplementedError

    def act(self, fields: dict[str, Any]) -> str:
        """Perform the action; return the message for users. Raises QlessError."""
        changed = self.perform(fields)
        text = self.unchanged if changed is False else self.success
        return self.say(text, **fields)

    @cached_property
    def words(self) -> dict[str, Any]:
        """Values for `prompt` and `success`, as they were before the action."""
        return {"action": self.label, "name": self.name}

    def say(self, text: _StrOrPromise, **values: Any) -> str:
        """Return a text filled with `words` and these values."""
        return str(text) % {**self.words, **values}

    def question(self) -> str:
        """Return the question that the page asks."""
        return self.say(self.prompt)

    def answer(self) -> HttpResponseBase:
        """Show the confirmation page, or perform the action."""
        self.check()
        if self.request.method != "POST":
            return self.ask(self.make_form(initial=self.initial()))
        form = self.make_form(self.request.POST)
        if not form.is_valid():
            return self.ask(form, status=400)
        try:
            self.words  # noqa: B018 (read before the action changes them)
            done = formatting.visible(self.act(form.cleaned_data))
        except ConnectionLost:
            raise  # The page that asks needs the server, too.
        except QlessError as error:
            form.add_error(None, formatting.visible(str(error)))
            return self.ask(form, status=409)
        self.log(done)
        messages.success(self.request, done)
        return HttpResponseRedirect(self.next_url())

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form, bound if there is something to bind it to."""
        return self.form_class(*args, **options)

    def ask(self, form: forms.Form, status: int = 200) -> HttpResponseBase:
        """Return the confirmation page."""
        content = {
            "action": self,
            "form": form,
            "question": formatting.visible(self.question()),
            "next": self.next_url(),
        }
        return self.render(self.template, content, status=status)

    def next_url(self) -> str:
        """Return the redirect URL: `next` if it is on this site, else the default."""
        url = self.request.POST.get("next") or self.request.GET.get("next") or ""
        is_ours = url_has_allowed_host_and_scheme(
            url, {self.request.get_host()}, self.request.is_secure()
        )
        return url if is_ours else self.usual_next()

    def usual_next(self) -> str:
        """Return the default redirect URL: the object's page or the list."""
        model = self.admin.model._meta.model_name
        if self.name and not self.back_to_list:
            return self.links.url(f"{model}_change", self.name)
        return self.links.url(f"{model}_changelist")

    @property
    def log_subject(self) -> tuple[type[Model], str]:
        """The model and the object's name for the entry in the audit log."""
        return self.admin.model, self.name

    def log(self, done: str) -> None:
        """Write an entry to the audit log."""
        model, name = self.log_subject
        plural = str(self.admin.model._meta.verbose_name_plural)
        title = "" if name else _("all %s") % plural
        record(self, [model(name=storable(name or "*"))], done, title=title)
