"""System checks: each mistake in the settings has its number, and a remedy."""

from __future__ import annotations

import sys
import types

import pytest
from cryptography.fernet import Fernet
from django.core import checks as django_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.test import override_settings

from django_qless import checks, conf
from django_qless.conf.connections import connections
from django_qless.serialization import sealing

GOOD = {"LOCATION": "redis://localhost:6379/1"}
CLUSTER = {"CLUSTER": ["redis://a"], "PREFIX": "{ql}:"}
SENTINELS = {"SENTINELS": [("a", 1)], "SERVICE_NAME": "main"}
REDIS_CACHE = "django.core.cache.backends.redis.RedisCache"


def found(**options: object) -> list[tuple[str, str]]:
    return [
        (message.id.removeprefix("django_qless."), f"{message.msg} {message.hint}")
        for message in checks.check_settings(**options)
    ]


@pytest.mark.parametrize(
    ("qless", "number", "words"),
    [
        ([], "E001", "must be a dict of aliases"),
        ({"default": "redis://"}, "E001", "each a dict"),
        ({"default": GOOD, "other": "redis://"}, "E001", "each a dict"),
        ({"default": GOOD, 5: GOOD}, "E001", "a dict of aliases"),
        ({"other": GOOD}, "E001", 'no alias "default"'),
        ({"LOCATION": "redis://h"}, "E001", "each a dict"),
        ({"default": {"LOCATON": "x"}}, "E002", "Did you mean 'LOCATION'?"),
        ({"default": {**GOOD, "location": "x"}}, "E002", "Did you mean 'LOCATION'?"),
        ({"default": {**GOOD, "zzz": 1}}, "E002", "The options are CACHE, "),
        (
            {"default": {**GOOD, "EMBEDDED": "/x"}},
            "E003",
            "LOCATION and EMBEDDED exclude",
        ),
        (
            {"default": {**GOOD, "DB": 1}},
            "E003",
            "DB goes with CACHE or SENTINELS only",
        ),
        (
            {"default": {"SENTINELS": [("a", 1)]}},
            "E042",
            "SENTINELS needs SERVICE_NAME",
        ),
        ({"default": {**GOOD, "SERVICE_NAME": "m"}}, "E042", "SERVICE_NAME goes with"),
        (
            {"default": {**GOOD, "SENTINEL_OPTIONS": {"password": "x"}}},
            "E042",
            "SENTINEL_OPTIONS goes with SENTINELS only",
        ),
        ({"default": {**SENTINELS, "SENTINELS": "a:1"}}, "E042", "a list of pairs"),
        ({"default": {**SENTINELS, "SENTINELS": ["a:1"]}}, "E042", "'a:1' is no pair"),
        (
            {"default": {**SENTINELS, "SENTINELS": [("a", "1")]}},
            "E042",
            "'1' of a is no",
        ),
        ({"default": {**SENTINELS, "SENTINELS": [("a", 70000)]}}, "E042", "is no port"),
        (
            {"default": {**SENTINELS, "SENTINELS": [("a", 1), ["a", 1]]}},
            "E042",
            "names an address twice",
        ),
        ({"default": {**SENTINELS, "SERVICE_NAME": 5}}, "E042", "SERVICE_NAME must be"),
        (
            {"default": {**SENTINELS, "SENTINEL_OPTIONS": {"pasword": "x"}}},
            "E042",
            "no connection option 'pasword'",
        ),
        ({"default": {**GOOD, "REPLICAS": -1}}, "E043", "from 0 to 100, not -1"),
        ({"default": {**GOOD, "REPLICAS": True}}, "E043", "from 0 to 100, not True"),
        ({"default": {"EMBEDDED": "/x", "REPLICAS": 1}}, "E043", "has no replica"),
        ({"default": {**SENTINELS, **GOOD}}, "E003", "LOCATION and SENTINELS exclude"),
        ({"default": {**GOOD, "OPTIONS": {"ssl": True}}}, "E010", "ssl goes with SENT"),
        ({"default": {**CLUSTER, "PREFIX": "ql:"}}, "E046", "'ql:' has no hash tag"),
        ({"default": {**CLUSTER, "PREFIX": "{}:"}}, "E046", "'{}:' has no hash tag"),
        ({"default": {"CLUSTER": ["redis://a"]}}, "E046", "'ql:' has no hash tag"),
        ({"default": {**CLUSTER, "CLUSTER": []}}, "E045", "names no node"),
        ({"default": {**CLUSTER, "CLUSTER": "redis://a"}}, "E045", "a list of URLs"),
        ({"default": {**CLUSTER, "CLUSTER": [("a", 1)]}}, "E045", "number 1 is no URL"),
        ({"default": {**CLUSTER, "CLUSTER": ["a:7000"]}}, "E045", "number 1 is no URL"),
        ({"default": {**CLUSTER, "CLUSTER": ["unix:///a"]}}, "E045", "a Unix socket"),
        (
            {"default": {**CLUSTER, "CLUSTER": ["redis://a/3"]}},
            "E045",
            "number 1 names database 3",
        ),
        (
            {"default": {**CLUSTER, "CLUSTER": ["redis://a", "redis://a"]}},
            "E045",
            "names a node twice",
        ),
        (
            {"default": {**CLUSTER, "CLUSTER": ["redis://a", "rediss://b"]}},
            "E045",
            "differ in more than host and port",
        ),
        ({"default": {**CLUSTER, "OPTIONS": {"db": 3}}}, "E045", "names database 3"),
        ({"default": {**CLUSTER, "DB": 3}}, "E003", "DB goes with CACHE or SENTINELS"),
        ({"default": {**CLUSTER, **GOOD}}, "E003", "LOCATION and CLUSTER exclude"),
        ({"default": {**CLUSTER, **SENTINELS}}, "E003", "SENTINELS and CLUSTER excl"),
        ({"default": {**GOOD, "ON_OUTAGE": "drop"}}, "E061", "ON_OUTAGE must be"),
        ({"default": {**GOOD, "PATIENCE": -1}}, "E033", "PATIENCE must be a number"),
        ({"default": {**GOOD, "PATIENCE": "2"}}, "E033", "PATIENCE must"),
        ({"default": {"LOCATION": 5}}, "E005", "must be a URL, not 5"),
        ({"default": {"LOCATION": "http://h"}}, "E005", "no URL of a server"),
        ({"default": {"CACHE": "nope"}}, "E006", "'nope' is not in CACHES"),
        ({"default": {"CACHE": "default"}}, "E006", "not a cache in Redis"),
        ({"default": {"CACHE": "default", "DB": "1"}}, "E006", "DB must be a number"),
        ({"default": {"EMBEDDED": 1}}, "E007", "True or a folder, not 1"),
        ({"default": {"EMBEDDED": True}}, "E007", "needs the setting BASE_DIR"),
        ({"default": {**GOOD, "PREFIX": ""}}, "E008", "PREFIX must be a text"),
        ({"default": {**GOOD, "OPTIONS": []}}, "E010", "OPTIONS must be a dict"),
        (
            {"default": {**GOOD, "OPTIONS": {"socket_timout": 1}}},
            "E010",
            "Did you mean 'socket_timeout'?",
        ),
        (
            {"default": {**GOOD, "OPTIONS": {"decode_responses": True}}},
            "E010",
            "must not have 'decode_responses'",
        ),
        ({"default": {**GOOD, "QUEUES": ["mail"]}}, "E011", "QUEUES must be a dict"),
        (
            {"default": {**GOOD, "QUEUES": {"m*": {}}}},
            "E011",
            "'m*' cannot name a queue",
        ),
        ({"default": {**GOOD, "QUEUES": {"m": 3}}}, "E011", "'m' must have a dict"),
        (
            {"default": {**GOOD, "QUEUES": {"m": {"max_concurency": 3}}}},
            "E011",
            "Did you mean 'max_concurrency'?",
        ),
        (
            {"default": {**GOOD, "QUEUES": {"m": {"heartbeat": "60"}}}},
            "E011",
            "must be a number from 0, not '60'",
        ),
        (
            {"default": {**GOOD, "QUEUES": {"m": {"weight": -0.5}}}},
            "E011",
            "must be a number from 0, not -0.5",
        ),
        (
            {"default": {**GOOD, "QUEUES": {"m": {"failed_queue": "m"}}}},
            "E011",
            "must be another queue",
        ),
        (
            {"default": {**GOOD, "QUEUES": {"m": {"failed_queue": "m*"}}}},
            "E011",
            "must be the name of a queue, not 'm*'",
        ),
        ({"default": {**GOOD, "CONFIG": 3}}, "E012", "CONFIG must be a dict"),
        (
            {"default": {**GOOD, "CONFIG": {"jobs_history": 1}}},
            "E012",
            "Did you mean 'jobs-history'?",
        ),
        (
            {"default": {**GOOD, "CONFIG": {"jobs-history": "long"}}},
            "E012",
            "must be a number, not 'long'",
        ),
        (
            {"default": {**GOOD, "CONFIG": {"jobs_history_count": 5}}},
            "E012",
            "Did you mean 'jobs-history-count'?",
        ),
        ({"default": {**GOOD, "MIDDLEWARE": "a.b"}}, "E013", "must be a list"),
        ({"default": {**GOOD, "ENCRYPTION_KEYS": "a" * 44}}, "E052", "a list of keys"),
        (
            {"default": {**GOOD, "ENCRYPTION_KEYS": ["A" * 43 + "=", "short"]}},
            "E052",
            "key 2 must be 32 bytes",
        ),
        ({"default": {**GOOD, "ENCRYPTION_KEYS": [b"A"]}}, "E052", "key 1 must be"),
        ({"default": {**GOOD, "COMPRESSION": "lzma"}}, "E054", '"zlib" or "zstd"'),
        ({"default": {**GOOD, "MIDDLEWARE": ["a b"]}}, "E013", "no dotted name"),
        (
            {"default": {**GOOD, "OPTIONS": {"socket_timeout": 0}}},
            "E014",
            "above 0, not 0",
        ),
    ],
)
def test_mistakes(qless, number, words) -> None:
    with override_settings(QLESS=qless):
        messages = found()
        assert [each for each in messages if each[0] == number and words in each[1]]
        assert all(
            message.hint for message in checks.check_settings() if number != "E006"
        )
        # What a check calls an error is refused when it is used as well.
        with pytest.raises(ImproperlyConfigured):
            connections["default"]


def test_libraries_that_are_missing_are_named(monkeypatch) -> None:
    key = Fernet.generate_key().decode()
    own = {**GOOD, "ENCRYPTION_KEYS": [key], "COMPRESSION": "zstd"}
    with override_settings(QLESS={"default": own}):
        assert found() == []
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "cryptography.fernet", None)
        patched.setattr(sealing, "ZSTD_MODULES", ("no_such_module",))
        sealing.zstd.cache_clear()
        with override_settings(QLESS={"default": own}):
            hints = {each.id: each.hint for each in checks.check_settings()}
    assert hints == {
        "django_qless.E052": "Install the extra `encryption`.",
        "django_qless.E054": 'Install the extra `zstd`, or use "zlib".',
    }


def test_middleware_must_be_there() -> None:
    for name, words in [
        ("tests.nowhere.at_all", "No module named 'tests.nowhere'"),
        ("tests.jobs_app.middleware.nothing", "does not define a"),
        ("tests.jobs_app.middleware.not_callable", "cannot be called"),
    ]:
        with override_settings(QLESS={"default": {**GOOD, "MIDDLEWARE": [name]}}):
            [(number, text)] = found()
            assert number == "E013"
            assert words in text


@pytest.mark.parametrize(
    ("one", "other", "numbers"),
    [
        (GOOD, {"LOCATION": "redis://127.0.0.1/1"}, ["E015"]),
        (GOOD, {**GOOD, "PREFIX": "x:"}, []),
        (GOOD, {"LOCATION": "redis://localhost/2"}, []),
        ({"LOCATION": "redis://"}, {"LOCATION": "redis://[::1]:6379/0"}, ["E015"]),
        ({"LOCATION": "redis://"}, GOOD, []),
        ({"LOCATION": "redis://"}, {"LOCATION": "redis://localhost:6380"}, []),
        (SENTINELS, {**SENTINELS, "DB": 0}, ["E015"]),
        (SENTINELS, {**SENTINELS, "DB": 1}, []),
    ],
)
def test_two_aliases_of_one_namespace(
    one: object, other: object, numbers: list[str]
) -> None:
    with override_settings(QLESS={"default": one, "other": other}):
        assert [number for number, _ in found()] == numbers


def test_a_database_shared_with_a_cache() -> None:
    caches = {"default": {"BACKEND": REDIS_CACHE, "LOCATION": "redis://localhost/1"}}
    with override_settings(CACHES=caches):
        for shared in (GOOD, {"CACHE": "default"}):
            with override_settings(QLESS={"default": shared}):
                [(number, text)] = found()
                assert number == "W001"
                assert "cache.clear() would delete every job" in text
        for own in ({"CACHE": "default", "DB": 2}, {"LOCATION": "redis://localhost/2"}):
            with override_settings(QLESS={"default": own}):
                assert found() == []


def test_what_is_good_is_silent(tmp_path) -> None:
    whole = {
        **GOOD,
        "PREFIX": "shop:",
        "OPTIONS": {"socket_timeout": 9, "client_name": "shop", "max_connections": 100},
        "QUEUES": {"mail": {"heartbeat": 30, "max_concurrency": 4, "weight": 3}},
        "CONFIG": {"jobs-history": 86400, "mail-heartbeat": 5, "application": "shop"},
        "MIDDLEWARE": ["tests.jobs_app.middleware.outer"],
        "ON_OUTAGE": "raise",
    }
    with override_settings(QLESS={"default": whole}):
        assert found() == []
    with override_settings(QLESS={"default": {"EMBEDDED": True}}, BASE_DIR=tmp_path):
        assert found() == []
        assert conf.alias().embedded == tmp_path / ".qless"
        assert not (tmp_path / ".qless").exists()
    assert found() == []  # no QLESS at all


def test_deployment(tmp_path) -> None:
    def ids() -> list[str]:
        return [message.id for message in checks.check_deployment()]

    with override_settings(DEBUG=False, BASE_DIR=tmp_path):
        assert ids() == ["django_qless.W002"]
        with override_settings(QLESS={"default": {"EMBEDDED": True}}):
            assert ids() == ["django_qless.W003"]
        with override_settings(QLESS={"default": GOOD}):
            assert ids() == []
        with override_settings(DEBUG=True):
            assert ids() == []


def test_a_module_that_cannot_be_imported(monkeypatch) -> None:
    broken = types.ModuleType("broken_module")
    with override_settings(QLESS_MODULES=["jobs", "broken"]):
        assert checks.check_modules() == []
        real = checks.jobs.discovery.import_module

        def import_module(name: str):
            if name == "tests.jobs_app.jobs":
                raise RuntimeError("oh")
            return real(name)

        monkeypatch.setattr(checks.jobs.discovery, "import_module", import_module)
        [message] = checks.check_modules()
    assert message.id == "django_qless.E016"
    assert "tests.jobs_app.jobs cannot be imported: RuntimeError('oh')" in message.msg
    assert broken.__name__ not in sys.modules


def test_redis_py(monkeypatch) -> None:
    assert checks.check_redis_py() == []
    monkeypatch.setattr(checks, "version", lambda name: "8.0.0")
    [message] = checks.check_redis_py()
    assert message.id == "django_qless.E017"


def test_django_runs_them() -> None:
    with override_settings(QLESS={"default": {"LOCATON": "redis://"}}):
        # (Jobs that other tests have declared may be faulty, too.)
        messages = django_checks.run_checks(tags=["qless"])
        assert "django_qless.E002" in [message.id for message in messages]
    with override_settings(QLESS={"default": GOOD}):
        call_command("check", "--tag", "qless", "--deploy", "--fail-level", "WARNING")
    # Without --deploy a project may be one that is being developed.
    assert checks.check_deployment not in django_checks.registry.registry.get_checks()


def test_settings_are_read_when_they_are_needed() -> None:
    with override_settings(QLESS={"default": {**GOOD, "PREFIX": "a:"}}):
        assert conf.alias().prefix == "a:"
        with override_settings(QLESS={"default": {**GOOD, "PREFIX": "b:"}}):
            assert conf.alias().prefix == "b:"
        assert conf.alias().prefix == "a:"
