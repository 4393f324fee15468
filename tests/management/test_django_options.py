"""Django's options: they may stand anywhere, and `-v 0` prints only what was asked for."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from django.core.management import ManagementUtility, get_commands, load_command_class

import django_qless
from django_qless import recurring
from tests.jobs_app import jobs
from tests.management.commands import run

COMMANDS = sorted(
    name for name, app in get_commands().items() if app == django_qless.__name__
)
WANTED = {
    "settings": "tests.settings",
    "pythonpath": ".",
    "verbosity": 2,
    "traceback": True,
    "no_color": True,
    "skip_checks": True,
}
WORDS = (
    *("--settings=tests.settings", "--pythonpath", ".", "-v", "2"),
    *("--traceback", "--no-color", "--skip-checks"),
)


def parser_of(command: str) -> argparse.ArgumentParser:
    return load_command_class("django_qless", command).create_parser("m", command)


def calls(command: str) -> list[list[str]]:
    """Return a call with all required arguments of each subcommand, if there are any."""
    parser = parser_of(command)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return [[name, *required(inner)] for name, inner in action.choices.items()]
    return [required(parser)]


def required(parser: argparse.ArgumentParser) -> list[str]:
    """Return a word for each argument that must be there."""
    found = []
    for action in parser._actions:
        if action.required:
            found += action.option_strings[:1]
            found.append(str(next(iter(action.choices or ["1"]))))
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_django_work_before_and_behind_a_subcommand(command: str) -> None:
    for call in calls(command):
        for words in (
            [*WORDS, *call],
            [*call, *WORDS],
            [*WORDS[:3], *call, *WORDS[3:]],
        ):
            found = vars(parser_of(command).parse_args(words))
            assert WANTED.items() <= found.items(), words
        usual = vars(parser_of(command).parse_args(call))
        assert (usual["verbosity"], usual["settings"]) == (1, None)
        forced = parser_of(command).parse_args([*call, "--force-color"])
        assert forced.force_color is True


def test_settings_and_traceback_behind_a_subcommand(qless, capsys) -> None:
    words = ["list", "--settings=tests.settings", "-v", "1", "--no-color"]
    ManagementUtility(["manage.py", "qless_jobs", *words]).execute()
    assert capsys.readouterr().out == "no jobs\n"
    missing = ["manage.py", "qless_jobs", "show", "nothing"]
    with pytest.raises(SystemExit):
        ManagementUtility(missing).execute()
    with pytest.raises(Exception, match="nothing"):
        ManagementUtility([*missing, "--traceback"]).execute()


QUIET = ("-v", "0")


def test_changes_print_nothing_at_verbosity_0(qless, tmp_path: Path) -> None:
    jid = jobs.add.using(queue="q").delay(1, 2).jid
    name = jobs.add.recur(1, every=3600).id
    for call in (
        *("qless_queue pause q", "qless_queue resume q"),
        *("qless_queue limit q --rate 5/m", "qless_queue forget nothing"),
        "qless_queue empty q --state depends",
        *("qless_config set q-heartbeat 5", "qless_config unset q-heartbeat"),
        *("qless_config reset --all", "qless_recurring sync"),
        *(f"qless_recurring pause {name}", f"qless_recurring run {name}"),
        *(f"qless_recurring remove {name}", "qless_entities kill q --no-input"),
        *(f"qless_jobs move q2 {jid}", f"qless_jobs cancel {jid}"),
    ):
        assert run(*call.split(), *QUIET) == "", call
    assert name not in [each.id for each in recurring]


def test_what_was_asked_for_is_printed_at_verbosity_0(qless) -> None:
    failed = jobs.add.using(queue="q").delay(1, 2).jid
    assert failed in run("qless_jobs", "list", *QUIET)
    assert failed in run("qless_jobs", "show", failed, *QUIET)
    assert run("qless_config", "get", "heartbeat", *QUIET) == "60\n"
    assert "q" in run("qless_queue", "list", *QUIET)
    assert '"text"' in run("qless_queue", "pause", "q", "--json", *QUIET)
    assert "not retried" in run("qless_jobs", "retry", failed, *QUIET)
