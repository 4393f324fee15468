"""The setting QLESS: the last value that is taken, and the first that is not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from django_qless.conf.validation import validate_alias
from django_qless.core.options import OPTIONS

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "shared": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://localhost:6379/1",
    },
}
LONGEST = "p" * 100


JOBS = "must be a whole number of jobs, or 0 for any number"


SENTINELS = {"SENTINELS": [("h", 1)], "SERVICE_NAME": "main"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"LOCATION": "redis://localhost:6379/0"},
        {"LOCATION": "rediss://user:word@host:6380/3"},
        {"LOCATION": "unix:///run/redis.sock?db=2"},
        {"CACHE": "shared"},
        {"CACHE": "shared", "DB": 0},
        {"EMBEDDED": False},
        {"EMBEDDED": "/srv/qless"},
        {"EMBEDDED": Path("/srv/qless")},
        {"PREFIX": "p"},
        {"PREFIX": LONGEST},
        {"PROJECT": "p"},
        {"PROJECT": LONGEST},
        {"ON_OUTAGE": "raise"},
        {"PATIENCE": 0},
        {"PATIENCE": 0.5},
        {"PATIENCE": 3600},
        {"REPLICAS": 1},
        {"REPLICAS": 100},
        {**SENTINELS, "SENTINELS": [("h", 1), ("h", 65535)], "DB": None},
        {"ON_COMMIT": None},
        {"ON_COMMIT": "outbox"},
        {"COMPRESSION": None},
        {"OPTIONS": {"socket_timeout": 0.001, "max_connections": 3, "db": 4}},
        {"OPTIONS": {"socket_timeout": None}},
        {"QUEUES": {"q": {}}},
        {"QUEUES": {"q": {"heartbeat": 0, "max_concurrency": 0, "weight": 0}}},
        {"QUEUES": {"q": {"timeout": 0.001, "hard_timeout": 0.001}}},
        {"QUEUES": {"q": {"max_concurrency": 2.0, "rate": "0"}}},
        {
            "CONFIG": {
                "q-rate": "100/m",
                "t-rate-per-key": "0",
                "t-max-concurrency-of-type": 3,
            }
        },
        {"QUEUES": {"q": {"detached_limit": 1, "failed_queue": "x" * 255}}},
        {"QUEUES": {"q": {"timeout": 9}}},
        {"QUEUES": {"q": {"hard_timeout": 9}}},
        {"CONFIG": {"jobs-history": 0, "q-heartbeat": 1.5, "application": "shop"}},
        {"CONFIG": {"q-max-concurrency": 1, "q-weight": 2}},
        {"MIDDLEWARE": []},
        {"MIDDLEWARE": ("shop.middleware.trace",)},
        {"CONTEXT": ["shop.context.Tenant"]},
        {"TEST": False},
        {"TEST": None},
        {"TEST": {}},
        {"TEST": {"LOCATION": "redis://localhost:6379/9"}},
    ],
)
def test_what_is_taken(options: dict[str, Any]) -> None:
    with override_settings(CACHES=CACHES):
        assert list(validate_alias("mail", options)) == []


@pytest.mark.parametrize(
    "name", [option.name for option in OPTIONS if option.default != "qless"]
)
def test_numbers_of_the_core(name: str) -> None:
    assert list(validate_alias("mail", {"CONFIG": {name: 1}})) == []
    [problem] = validate_alias("mail", {"CONFIG": {name: "1"}})
    assert problem.number == "E012"
    assert problem.text == (f"QLESS['mail']: CONFIG: {name} must be a number, not '1'.")


@pytest.mark.parametrize(
    ("options", "number", "words"),
    [
        ({"CACHE": "shared", "DB": -1}, "E006", "DB must be a number from 0, not -1"),
        ({"CACHE": "shared", "DB": True}, "E006", "from 0, not True"),
        ({"CACHE": "none"}, "E006", "'none' is not in CACHES"),
        ({"LOCATION": "redis://h", "CACHE": "shared"}, "E003", "LOCATION and CACHE"),
        ({"LOCATION": "redis://h", "EMBEDDED": "/x"}, "E003", "LOCATION and EMBEDDED"),
        ({"PREFIX": LONGEST + "p"}, "E008", "1 to 100 characters"),
        ({"PREFIX": b"ql:"}, "E008", "1 to 100 characters, not b'ql:'"),
        ({"PREFIX": None}, "E008", "1 to 100 characters, not None"),
        ({"PROJECT": ""}, "E034", "1 to 100 bytes, not ''"),
        ({"PROJECT": LONGEST + "p"}, "E034", "1 to 100 bytes"),
        # Bytes count, not characters.
        ({"PROJECT": "ä" * 51}, "E034", "1 to 100 bytes"),
        ({"PATIENCE": -0.001}, "E033", "from 0 to 3600, not -0.001"),
        ({"PATIENCE": 3600.001}, "E033", "from 0 to 3600, not 3600.001"),
        ({"PATIENCE": float("nan")}, "E033", "from 0 to 3600, not nan"),
        ({"PATIENCE": True}, "E033", "from 0 to 3600, not True"),
        ({"PATIENCE": timedelta(1)}, "E033", "PATIENCE must be a number"),
        ({"REPLICAS": 101}, "E043", "from 0 to 100, not 101"),
        ({**SENTINELS, "SENTINELS": [("h", 0)]}, "E042", "0 of h is no port"),
        ({**SENTINELS, "SENTINELS": [("h", 65536)]}, "E042", "65536 of h is no port"),
        ({**SENTINELS, "SENTINELS": [("h", True)]}, "E042", "True of h is no port"),
        ({**SENTINELS, "SENTINELS": [("", 1)]}, "E042", "('', 1) is no pair"),
        ({**SENTINELS, "SENTINELS": [("h", 1, 2)]}, "E042", "('h', 1, 2) is no pair"),
        ({"ENCRYPTION_KEYS": [b"A" * 43 + b"="]}, "E052", "key 1 must be 32 bytes"),
        ({"OPTIONS": {"socket_timeout": -1}}, "E014", "above 0, not -1"),
        ({"OPTIONS": {"socket_connect_timeout": 0}}, "E014", "above 0, not 0"),
        ({"OPTIONS": {"socket_timeout": "5"}}, "E014", "above 0, not '5'"),
        ({"OPTIONS": {"retry": None}}, "E010", "must not have 'retry'"),
        ({"OPTIONS": {"decode_responses": True}}, "E010", "the client reads bytes"),
        ({"OPTIONS": {"socket_timout": 5}}, "E010", "no connection option"),
        ({"OPTIONS": {"max_connections": 500}}, "E010", "from 1 to 100, not 500"),
        ({"OPTIONS": {"protocol": 3}}, "E010", "the client speaks RESP2"),
        (
            {"LOCATION": "redis://h/0?health_check_interval=30"},
            *("E005", "must not have 'health_check_interval'"),
        ),
        (
            {"CLUSTER": ["redis://h:1?health_check_interval=30"], "PREFIX": "{q}"},
            *("E045", "must not have 'health_check_interval'"),
        ),
        (
            {**SENTINELS, "SENTINEL_OPTIONS": {"health_check_interval": 30}},
            *("E042", "must not have 'health_check_interval'"),
        ),
        ({"QUEUES": {"": {}}}, "E011", "'' cannot name a queue"),
        ({"QUEUES": {"q*": {}}}, "E011", "'q*' cannot name a queue"),
        ({"QUEUES": {"q?": {}}}, "E011", "'q?' cannot name a queue"),
        ({"QUEUES": {5: {}}}, "E011", "5 cannot name a queue"),
        ({"QUEUES": {"q": {"weight": -1}}}, "E011", "must be a number from 0, not -1"),
        ({"QUEUES": {"q": {"weight": True}}}, "E011", "a number from 0, not True"),
        ({"QUEUES": {"q": {"detached_limit": 0}}}, "E011", "a whole number from 1"),
        ({"QUEUES": {"q": {"detached_limit": 1.5}}}, "E011", "a whole number from 1"),
        ({"QUEUES": {"q": {"failed_queue": ""}}}, "E011", "name of a queue, not ''"),
        ({"QUEUES": {"q": {"failed_queue": 5}}}, "E011", "name of a queue, not 5"),
        (
            {"QUEUES": {"q": {"failed_queue": "x?"}}},
            "E011",
            "name of a queue, not 'x?'",
        ),
        ({"QUEUES": {"q": {"failed_queue": "ä" * 128}}}, "E011", "name of a queue"),
        ({"QUEUES": {"q": {"timeout": 0}}}, "E011", "timeout of queue 'q' must be"),
        ({"QUEUES": {"q": {"hard_timeout": 0}}}, "E011", "hard_timeout of queue 'q'"),
        (
            {"QUEUES": {"q": {"timeout": 9.001, "hard_timeout": 9}}},
            *("E011", "timeout of queue 'q' exceeds its hard_timeout"),
        ),
        ({"CONFIG": {"jobs_history": 1}}, "E012", "no option 'jobs_history'"),
        ({"QUEUES": {"q": {"max_concurrency": -1}}}, "E011", f"{JOBS}, not -1"),
        ({"QUEUES": {"q": {"max_concurrency": 1.5}}}, "E011", f"{JOBS}, not 1.5"),
        ({"QUEUES": {"q": {"max_concurrency": "2"}}}, "E011", f"{JOBS}, not '2'"),
        ({"QUEUES": {"q": {"rate": ""}}}, "E011", "\"0\" for any number, not ''"),
        ({"CONFIG": {"q-max-concurrency": -1}}, "E012", f"{JOBS}, not -1"),
        ({"CONFIG": {"t-max-concurrency-of-type": 1.5}}, "E012", f"{JOBS}, not 1.5"),
        ({"CONFIG": {"t-rate-per-key": "fast"}}, "E012", "number, not 'fast'"),
        ({"CONFIG": {"q-weight": -1}}, "E012", "must be a number from 0, not -1"),
        ({"CONFIG": {"q-heartbeat": "60"}}, "E012", "must be a number, not '60'"),
        (
            {**SENTINELS, "SENTINEL_OPTIONS": {"db": 1}},
            *("E042", "SENTINEL_OPTIONS must not have 'db'"),
        ),
        ({"CONTEXT": "a.b"}, "E025", "CONTEXT must be a list"),
        ({"CONTEXT": ["ab"]}, "E025", "'ab' is no dotted name"),
        ({"CONTEXT": [5]}, "E025", "5 is no dotted name"),
        ({"MIDDLEWARE": ["ab"]}, "E013", "'ab' is no dotted name"),
        ({"TEST": True}, "E040", "TEST must be False, or a dict"),
        ({"TEST": {"TEST": {}}}, "E040", "TEST must be False, or a dict"),
        ({"TEST": {"PREFIX": ""}}, "E008", "TEST: PREFIX must be a text"),
    ],
)
def test_what_is_refused(options: dict[str, Any], number: str, words: str) -> None:
    with override_settings(CACHES=CACHES):
        problems = list(validate_alias("mail", options))
    assert [problem.number for problem in problems] == [number]
    assert problems[0].text.startswith("QLESS['mail']: ")
    assert words in problems[0].text
    assert problems[0].hint


def test_equal_timeouts_exceed_nothing() -> None:
    queues = {"q": {"timeout": 9, "hard_timeout": 9}}
    assert list(validate_alias("mail", {"QUEUES": queues})) == []


@pytest.mark.parametrize("folder", [None, ""])
def test_a_folder_of_the_project_is_needed(folder: str | None) -> None:
    with override_settings(BASE_DIR=folder):
        [problem] = validate_alias("mail", {"EMBEDDED": True})
    assert problem.number == "E007"
    with override_settings(BASE_DIR="/srv"):
        assert list(validate_alias("mail", {"EMBEDDED": True})) == []
