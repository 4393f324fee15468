"""The tokens of the pages for monitoring, as the settings have them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from django_qless.conf.monitoring import NAME, SHORTEST, token_problems, tokens

LONG = "x" * SHORTEST


@pytest.mark.parametrize(
    ("value", "problems", "valid"),
    [
        (None, [], ()),
        ("", [], ()),
        (LONG, [], (LONG,)),
        ([LONG, LONG + "y"], [], (LONG, LONG + "y")),
        ((), [], ()),
        (5, ["must be a text, or a list of texts"], ()),
        ({LONG: 1}, ["must be a text, or a list of texts"], ()),
        ([LONG, None], ["must be a text, or a list of texts"], ()),
        ([""], ["a token of 0 characters"], ()),
        (LONG[1:], [f"a token of {SHORTEST - 1} characters"], ()),
        ([LONG, "ü" * SHORTEST], [f"a token of {SHORTEST} characters"], ()),
        (LONG + "\n", [f"a token of {SHORTEST + 1} characters"], ()),
    ],
)
def test_what_is_wrong_with_tokens_is_said_and_none_of_them_is_valid_then(
    value: Any, problems: list[str], valid: tuple[str, ...]
) -> None:
    with override_settings(**{NAME: value}):
        found = [problem.text for problem in token_problems()]
        assert len(found) == len(problems)
        assert all(words in text for words, text in zip(problems, found, strict=True))
        assert tokens() == valid
