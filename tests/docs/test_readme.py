"""What the README lists is there."""

from __future__ import annotations

import re

import pytest
from django.core.management import load_command_class

from tests.docs.pages import ROOT


def test_the_commands_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    rows = re.findall(
        r"^\| `(qless_\w+)(.*?)\|", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert len(rows) >= 8
    for name, rest in rows:
        first = re.findall(r"^ (\w+)`", rest)
        words = [*first, *re.findall(r"`(\w+)`", rest)]
        for word in words or [""]:
            arguments = [word, "--help"] if word else ["--help"]
            parser = load_command_class("django_qless", name).create_parser("", name)
            with pytest.raises(SystemExit) as ended:
                parser.parse_args(arguments)
            assert ended.value.code == 0, (name, word)
            told = capsys.readouterr().out
            for option in ("--alias", *re.findall(r"\[(--[\w-]+)\]", rest)):
                assert option in told, (name, word)
