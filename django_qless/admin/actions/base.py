"""What every action does around its work: ask, check, log, say what was done, go back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.http import HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _

from django_qless.admin import words
from django_qless.admin.views import View
from django_qless.conf import DEFAULT_ALIAS
from django_qless.core import ConnectionLost, QlessError

if TYPE_CHECKING:
    from django.http import HttpResponseBase
    from django.utils.functional import _StrOrPromise


class Action(View):
    """Changes something about what the URL names.

    GET shows a page that asks (with the fields of the form, if there is one) and changes
    nothing; POST does it, leaves an entry in Django's log, and goes back to `next`.
    """

    template = "action.html"
    allowed = ("GET", "HEAD", "POST")
    verb: ClassVar[str]
    """The last part of the URL, and the end of its name."""
    label: ClassVar[_StrOrPromise]
    """What the button says."""
    confirm: ClassVar[_StrOrPromise] = ""
    """What the button of the page that asks says, if `label` could be misread there."""
    danger: ClassVar[bool] = False
    """Whether what it does cannot be undone: pages ask before they do it."""
    form_class: ClassVar[type[forms.Form]] = forms.Form

    def question(self) -> str:
        """Return what is asked before it is done, and what follows from it."""
        return _("%(action)s: %(name)s?") % {"action": self.label, "name": self.name}

    def initial(self) -> dict[str, Any]:
        """Return what the form shows first; may raise QlessError and Missing."""
        return {}

    def act(self, fields: dict[str, Any]) -> str:
        """Do it, with the form's fields; return what was done, for people.

        May raise QlessError: then nothing was done, and the user is told why.
        """
        raise NotImplementedError

    def answer(self) -> HttpResponseBase:
        """Ask, or do it."""
        if self.request.method != "POST":
            form = self.make_form(initial=self.initial())
            return self.ask(form)
        form = self.make_form(self.request.POST)
        if not form.is_valid():
            return self.ask(form, status=400)
        try:
            done = words.visible(self.act(form.cleaned_data))
        except ConnectionLost:
            raise  # The page asks the server, too: what it says then is not of the action.
        except QlessError as error:
            form.add_error(None, words.visible(str(error)))
            return self.ask(form, status=409)
        self.log(done)
        messages.success(self.request, done)
        return HttpResponseRedirect(self.next_url())

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form, bound if there is something to bind it to."""
        return self.form_class(*args, **options)

    def ask(self, form: forms.Form, status: int = 200) -> HttpResponseBase:
        """Return the page that asks."""
        content = {
            "action": self,
            "form": form,
            "question": words.visible(self.question()),
            "next": self.next_url(),
        }
        return self.render(self.template, content, status=status)

    def next_url(self) -> str:
        """Return where to go afterwards: `next` if it is of this site, else the page."""
        url = self.request.POST.get("next") or self.request.GET.get("next") or ""
        is_ours = url_has_allowed_host_and_scheme(
            url, {self.request.get_host()}, self.request.is_secure()
        )
        return url if url and is_ours else self.usual_next()

    def usual_next(self) -> str:
        """Return where to go if nobody says: the page of what was acted on."""
        model = self.admin.model._meta.model_name
        if self.name:
            return self.links.url(f"{model}_change", self.name)
        return self.links.url(f"{model}_changelist")

    def log(self, done: str, name: str | None = None, model: Any = None) -> None:
        """Leave an entry in Django's log: about what the URL names, or about `name`."""
        name = self.name if name is None else name
        if self.alias != DEFAULT_ALIAS:
            done = f"[{self.alias}] {done}"
        entry: Any = LogEntry.objects.log_actions(
            user_id=self.request.user.pk,
            # What PostgreSQL cannot keep in a text is left out.
            queryset=[(model or self.admin.model)(name=_storable(name or "*"))],
            action_flag=CHANGE,
            change_message=_storable(done),
            single_object=True,
        )
        if not name:
            # It is about all there are, which have no page that it could lead to.
            plural = str(self.admin.model._meta.verbose_name_plural)
            LogEntry.objects.filter(pk=entry.pk).update(
                object_id=None, object_repr=_("all %s") % plural
            )


def _storable(text: str) -> str:
    return text.replace("\0", "␀").encode(errors="replace").decode()
