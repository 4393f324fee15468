"""Options are described as the core knows them, also those of queues and job types."""

from __future__ import annotations

import pytest

from django_qless.core import Client
from django_qless.core.options import OF_A_QUEUE, OF_A_TYPE, OPTIONS, is_of, known


def test_the_defaults_are_those_of_the_core(client: Client) -> None:
    defaults = {option.name: option.default for option in OPTIONS}
    # It names those that it shares with other clients; the rest it does not send.
    told = client.config_all()
    assert "heartbeat" in told
    assert told == {name: defaults[name] for name in told}


def test_each_option_is_found_by_its_own_name() -> None:
    for option in OPTIONS:
        assert known(option.name) == option
    for option in (*OF_A_QUEUE, *OF_A_TYPE):
        found = known(f"mail-{option.name}")
        assert found == option._replace(name=f"mail-{option.name}")


@pytest.mark.parametrize(
    "name", ["", "mail", "-rate", "rate", "mail-rates", "mailrate"]
)
def test_other_names_have_no_description(name: str) -> None:
    assert known(name) is None


def test_an_option_of_all_jobs_is_none_of_one_queue() -> None:
    everywhere, of_mail = known("heartbeat"), known("mail-heartbeat")
    assert everywhere is not None
    assert of_mail is not None
    assert (everywhere.default, of_mail.default) == (60, "")


@pytest.mark.parametrize(
    ("name", "kinds", "found"),
    [
        ("mail-rate", ["weight", "rate"], True),
        ("mail-rate", ["weight"], False),
        ("rate", ["rate"], False),
        ("mail-rate-of-type", ["rate"], False),
    ],
)
def test_the_kind_of_an_option_is_the_end_of_its_name(
    name: str, kinds: list[str], found: bool
) -> None:
    assert is_of(name, kinds) is found
