"""The template tags of the pages."""

from __future__ import annotations

import pytest
from django.template import Context, Template, TemplateSyntaxError

from django_qless.templatetags.qless_pages import LIVE_PARTS

LOAD = "{% load qless_pages %}"


def test_a_live_part_is_marked_and_kept_for_the_live_answer() -> None:
    template = Template(LOAD + "{% live 'rows' %}{{ text }}{% endlive %}")
    parts: dict[str, str] = {}
    shown = template.render(Context({"text": "<b>", LIVE_PARTS: parts}))
    assert shown == '<div class="qless-live" data-live="rows">&lt;b&gt;</div>'
    assert parts == {"rows": "&lt;b&gt;"}


@pytest.mark.parametrize("tag", ["live", "live rows", "live 'rows' 'more'"])
def test_a_live_part_has_one_name_in_quotes(tag: str) -> None:
    with pytest.raises(TemplateSyntaxError, match="live takes one name in quotes"):
        Template(f"{LOAD}{{% {tag} %}}{{% endlive %}}")
