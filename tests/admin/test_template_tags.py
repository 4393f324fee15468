"""The template tags of the pages."""

from __future__ import annotations

import pytest
from django.template import Context, Template, TemplateSyntaxError
from django.utils import translation

from django_qless.templatetags.qless_pages import LIVE_PARTS

LOAD = "{% load qless_pages %}"


def test_a_live_part_is_marked_and_kept_for_the_live_answer() -> None:
    template = Template(LOAD + "{% live 'rows' %}{{ text }}{% endlive %}")
    parts: dict[str, str] = {}
    shown = template.render(Context({"text": "<b>", LIVE_PARTS: parts}))
    assert shown == '<div class="qless-live" data-live="rows">&lt;b&gt;</div>'
    assert parts == {"rows": "&lt;b&gt;"}


@pytest.mark.parametrize(("whole", "text"), [(3, "0.333"), (0, "0.000")])
def test_a_share_is_a_number_for_svg(whole: int, text: str) -> None:
    template = Template(LOAD + "{{ one|part_of:whole }}")
    with translation.override("de"):
        assert template.render(Context({"one": 1, "whole": whole})) == text


@pytest.mark.parametrize("tag", ["live", "live rows", "live 'rows' 'more'"])
def test_a_live_part_has_one_name_in_quotes(tag: str) -> None:
    with pytest.raises(TemplateSyntaxError, match="live takes one name in quotes"):
        Template(f"{LOAD}{{% {tag} %}}{{% endlive %}}")
