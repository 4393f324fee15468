"""What of a page refreshes by itself: the parts in `{% live "name" %} … {% endlive %}`.

A page that is asked for with `live=1` renders as always, but answers with these parts
only, as JSON: {"parts": {name: HTML}}. live.js puts them into the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import JsonResponse

from django_qless.admin import words

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.template.response import TemplateResponse

PARTS = "live_parts"
"""The name in the context of the dict in which the tag leaves what it has rendered."""


def is_asked_for(request: HttpRequest) -> bool:
    """Return whether the live parts are wanted and not the page."""
    return request.GET.get("live") == "1"


def parts_of(response: TemplateResponse) -> JsonResponse:
    """Return the live parts of a page."""
    parts: dict[str, str] = {}
    assert response.context_data is not None
    response.context_data[PARTS] = parts
    response.render()
    parts = {name: words.in_one_line(html) for name, html in parts.items()}
    answer = JsonResponse({"parts": parts}, status=response.status_code)
    answer["Cache-Control"] = "no-store"
    return answer
