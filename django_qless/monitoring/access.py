"""Access to the URLs for machines: one token, in a header or in the query."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from django_qless.conf.monitoring import NAME, is_token, tokens

if TYPE_CHECKING:
    from django.http import HttpRequest

View = Callable[..., HttpResponse]

#: A request that carries this in its environment may read without a token: the command
#: serves its own machine so.
OPEN = "django_qless.open"


def for_machines(view: View) -> View:
    """Return a view for GET and HEAD with a valid token, whose answer is not cached.

    Without a token in the settings there is nothing here: 404. Without it in the request:
    403.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.META.get(OPEN):
            if not tokens():
                raise Http404(f"{NAME} is not set")
            if not is_token(given_token(request)):
                text = "Send the token: Authorization: Bearer …, or ?token=…"
                return JsonResponse({"problem": text}, status=403)
        return view(request, *args, **kwargs)

    return never_cache(require_safe(guarded))


def given_token(request: HttpRequest) -> str:
    """Return the token that a request carries, "" for none."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    return request.GET.get("token", "")
