"""`manage.py qless_config`."""

from __future__ import annotations

import pytest
from django.core.management import CommandError
from django.test import override_settings

from django_qless.conf.config_sync import sync_config
from tests.management.commands import data, run


def test_list_says_who_set_what(qless, server) -> None:
    declared = {
        "default": {
            "LOCATION": server.url,
            "CONFIG": {"heartbeat": 30},
            "QUEUES": {"mail": {"max_concurrency": 4}},
        }
    }
    with override_settings(QLESS=declared):
        sync_config()
        run("qless_config", "set", "mail-max-concurrency", "9")
        rows = {row["option"]: row for row in data("qless_config", "list")}
        assert rows["heartbeat"]["set by"] == "QLESS"
        assert rows["heartbeat"]["default"] == 60
        assert rows["mail-max-concurrency"]["set by"] == "operator"
        assert rows["grace-period"]["set by"] == ""
        assert all(row["meaning"] for row in rows.values())
        assert "seconds that a lock lasts" in run("qless_config", "list")
        run("qless_config", "reset", "mail-max-concurrency")
        assert run("qless_config", "get", "mail-max-concurrency") == "4\n"
        run("qless_config", "set", "heartbeat", "31")
        run("qless_config", "reset", "--all")
        assert "nothing to do" in run("qless_config", "reset", "--all")
        assert run("qless_config", "get", "heartbeat") == "30\n"
        run("qless_config", "unset", "heartbeat")
        assert run("qless_config", "get", "heartbeat") == "60\n"
        with pytest.raises(CommandError, match="names of options, or --all"):
            run("qless_config", "reset")


def test_a_typing_mistake_is_refused(qless) -> None:
    with pytest.raises(CommandError, match="did you mean jobs-history"):
        run("qless_config", "set", "job-history", "5")
    with pytest.raises(CommandError, match="There is no option 'no'"):
        run("qless_config", "get", "no")
    with pytest.raises(CommandError, match="heartbeat"):
        run("qless_config", "set", "heartbeat", "soon")
    run("qless_config", "set", "colour", "red", "--new")
    assert run("qless_config", "get", "colour") == "red\n"


def test_an_option_of_a_queue_or_a_type_has_its_default(qless) -> None:
    assert run("qless_config", "get", "mail-weight") == "1\n"
    assert run("qless_config", "get", "shop.Send-rate-per-key") == "0\n"
    assert data("qless_config", "get", "mail-max-concurrency") == 0
