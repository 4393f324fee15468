"""NAMESPACES: which queue goes where, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_qless import conf
from django_qless.checks.jobs import _options
from django_qless.conf import routing
from django_qless.conf.connection_factory import ClusterFactory, factory_for
from django_qless.conf.in_tests import settings_in_tests
from django_qless.conf.namespaces import Routes, members
from django_qless.exceptions import InvalidOption
from django_qless.job_types.options import Options
from django_qless.job_types.registry import JobType

URL = "redis://10.0.0.1:6379/0"
NAMESPACES = {
    "": "{ql}:",
    "mail": "{ql-mail}:",
    "report.*": {"PREFIX": "{ql-r}:", "LOCATION": "redis://10.0.0.2:6379/0"},
}


def of(**options: Any) -> dict[str, Any]:
    """Return a setting of one alias."""
    return {"default": {"LOCATION": URL, "NAMESPACES": NAMESPACES, **options}}


def found(setting: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the system checks say of it, but not of the jobs of other tests."""
    with override_settings(QLESS=setting):
        return [
            (each.id.removeprefix("django_qless."), each.msg)
            for each in run_checks(tags=["qless"])
            if each.id
            and each.id.startswith("django_qless.E")
            and "tests.routing.test_" not in each.msg
        ]


@pytest.mark.parametrize(
    ("queue", "name"),
    [
        ("mail", "a/mail"),
        ("mail.bulk", "a/m*l.bulk"),
        ("mail.x", "a/mail.*"),
        ("mbox", "a/m*"),
        ("xail", "a/?ail"),
        ("other", "a"),
        ("a\nb", "a"),
    ],
)
def test_names_win_over_globs_and_longer_globs_over_shorter(
    queue: str, name: str
) -> None:
    routes = Routes("a", ["m*", "?ail", "", "mail.*", "mail", "m*l.bulk"], {})
    assert routes.of(queue) == routes.of(queue) == name


def test_of_equally_long_globs_the_first_wins() -> None:
    assert Routes("a", ["", "a*", "*b"], {}).of("ab") == "a/a*"
    assert Routes("a", ["", "*b", "a*"], {}).of("ab") == "a/*b"


def test_many_queues_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Routes, "MOST_KEPT", 2)
    routes = Routes("a", ["", "x*"], {})
    assert [routes.of(f"x{n}") for n in range(5)] == ["a/x*"] * 5
    assert len(routes._kept) <= 2


def test_a_namespace_is_an_alias_with_a_server_and_queues_of_its_own() -> None:
    queues = {"mail": {"rate": "1/s"}, "report.x": {"weight": 2}, "q": {"weight": 1}}
    with override_settings(QLESS=of(QUEUES=queues, PATIENCE=3, DB=None)):
        names = ["default", "default/mail", "default/report.*"]
        assert conf.alias_names() == conf.namespaces_of("default") == names
        default, mail, report = map(conf.alias, names)
        assert [each.prefix for each in (default, mail, report)] == [
            *("{ql}:", "{ql-mail}:", "{ql-r}:")
        ]
        assert (mail.location, report.location) == (URL, "redis://10.0.0.2:6379/0")
        assert {each.patience for each in (default, mail, report)} == {3}
        assert [*map(list, (default.queues, mail.queues, report.queues))] == [
            *(["q"], ["mail"], ["report.x"])
        ]
        assert conf.namespaces_of("default/mail") == ["default/mail"]
        assert conf.namespaces_of("default/") == ["default"]
        assert routing.queue_namespaces("default", "mail") == ("default/mail",)
        assert routing.queue_namespaces("default/", "mail") == ("default",)
        assert routing.queue_namespaces("default/mail", "q") == ("default/mail",)
        with pytest.raises(ImproperlyConfigured, match="default, default/mail"):
            conf.alias("default/nowhere")


def test_the_server_of_a_namespace_takes_nothing_of_that_of_its_alias() -> None:
    given = {
        "CLUSTER": ["redis://10.0.0.1:7000"],
        "OPTIONS": {"username": "a"},
        "REPLICAS": 1,
        "NAMESPACES": {
            "": "{ql}:",
            "mail": "{ql-mail}:",
            "x": {"PREFIX": "x:", "LOCATION": "redis://10.0.0.9:6379"},
        },
    }
    assert found({"default": given}) == []
    with override_settings(QLESS={"default": given}):
        mail, other = conf.alias("default/mail"), conf.alias("default/x")
        assert (mail.replicas, mail.options) == (1, {"username": "a"})
        assert (other.replicas, other.options, other.cluster) == (0, {}, ())
        factory = factory_for(mail)
        assert isinstance(factory, ClusterFactory)
        assert factory.prefix == "{ql-mail}:"


def test_an_alias_without_namespaces_is_as_it_was() -> None:
    with override_settings(QLESS={"default": {"LOCATION": URL}}):
        assert conf.namespaces_of("default") == ["default"]
        assert routing.namespace_of("default", "mail") == "default"
        assert not routing.is_routed("default")
        assert routing.shares("default", ["a", "*"]) == [("default", ("a", "*"))]
        routing.check_stays("x", "default", "a", "b")


def test_an_alias_that_is_a_namespace_takes_its_own_queues_only() -> None:
    with override_settings(QLESS=of()):
        assert routing.namespace_of("default/mail", "mail") == "default/mail"
        with pytest.raises(InvalidOption, match="write alias='default'"):
            routing.namespace_of("default/mail", "other")


def test_which_namespaces_may_have_names_and_globs() -> None:
    with override_settings(QLESS=of()):
        assert routing.shares("default", ["mail"]) == [("default/mail", ("mail",))]
        assert routing.shares("default", ["b", "mail", "report.x", "a"]) == [
            ("default", ("b", "a")),
            ("default/mail", ("mail",)),
            ("default/report.*", ("report.x",)),
        ]
        # A glob may match queues of "report.*", but not the queue of a name.
        assert routing.shares("default", ["x*"]) == [
            *(("default", ("x*",)), ("default/report.*", ("x*",)))
        ]
        assert routing.shares("default/", ["mail"]) == [("default", ("mail",))]


SAME = {"": "a:", "mail": "a:"}
OTHER = {"PREFIX": "a:", "LOCATION": "redis://10.0.0.2:6379/0"}
CLUSTER = {"CLUSTER": ["redis://10.0.0.1:7000"], "LOCATION": None}


@pytest.mark.parametrize(
    ("options", "number", "text"),
    [
        ({"NAMESPACES": "mail"}, "E047", "must be a dict"),
        ({"NAMESPACES": {"mail": "m:"}}, "E047", "would be routed nowhere"),
        ({"NAMESPACES": {}}, "E047", "would be routed nowhere"),
        ({"PREFIX": "x:"}, "E047", "PREFIX both say"),
        ({"NAMESPACES": {"": "a:", 1: "b:"}}, "E047", "1 must be the name"),
        ({"NAMESPACES": {"": "a:", "x" * 93: "b:"}}, "E047", "at most 92"),
        ({"NAMESPACES": {"": "a:", "b": None}}, "E047", "must be a prefix"),
        ({"NAMESPACES": {"": "a:", "b": {}}}, "E047", "has no PREFIX"),
        ({"NAMESPACES": {"": "a:", "b": ""}}, "E008", "1 to 100 characters"),
        (
            {"NAMESPACES": {"": "a:", "b": {"PREFIX": "b:", "QUEUES": {}}}},
            *("E047", "cannot set 'QUEUES'"),
        ),
        ({"TEST": {"NAMESPACES": NAMESPACES}}, "E047", "cannot be others in TEST"),
        ({"NAMESPACES": SAME}, "E048", "'' and 'mail' have one prefix"),
        (
            {**CLUSTER, "NAMESPACES": {"": "{a}:", "b": "{a}b:"}},
            *("E048", "have one hash tag, {a}"),
        ),
        (
            {**CLUSTER, "NAMESPACES": {"": "{a}:", "b": "b:"}},
            *("E046", "'b:' has no hash tag"),
        ),
        (
            {"QUEUES": {"mail": {"failed_queue": "morgue"}}},
            *("E049", "'default/mail' and 'default'"),
        ),
        ({"CONFIG": {"mail-failed-queue": "x"}}, "E049", "failed-queue of queue"),
        ({"PATIENCE": -1}, "E033", "PATIENCE"),
    ],
)
def test_what_is_wrong_is_named(options: Any, number: str, text: str) -> None:
    problems = found(of(**options))
    assert number in [each for each, _ in problems], problems
    assert any(text in words for _, words in problems), problems
    with override_settings(QLESS=of(**options)), pytest.raises(ImproperlyConfigured):
        conf.alias()


@pytest.mark.parametrize(
    ("prefixes", "number", "remedy"),
    [
        ({"mail": "{a}:"}, "E047", 'Add "": "{ql}:"'),
        ({"": "{a}:", "mail": "ql-mail:"}, "E046", 'Write "PREFIX": "{ql-mail}:"'),
    ],
)
def test_what_a_remedy_names_would_be_right_on_a_cluster(
    prefixes: dict[str, str], number: str, remedy: str
) -> None:
    with override_settings(QLESS=of(**CLUSTER, NAMESPACES=prefixes)):
        problems = [
            (each.id, each.hint or "")
            for each in run_checks(tags=["qless"])
            if each.id in ("django_qless.E046", "django_qless.E047")
        ]
    ((id_, hint),) = problems
    assert id_ == f"django_qless.{number}"
    assert hint.startswith(remedy)


def test_a_problem_of_the_alias_is_told_once() -> None:
    assert len(found(of(PATIENCE=-1))) == 1


def test_one_prefix_on_two_servers_and_a_tag_without_a_cluster_are_fine() -> None:
    assert found(of(NAMESPACES={"": "a:", "b": OTHER})) == []
    assert found(of(NAMESPACES={"": "{a}:", "b": "{a}b:"})) == []
    same = {"mail": {"failed_queue": "mail"}, "a": {"failed_queue": "b"}}
    assert not any(number == "E049" for number, _ in found(of(QUEUES=same)))


def test_only_options_that_name_a_queue_are_looked_at_as_such() -> None:
    for given in (
        {"CONFIG": {"mail-rate": "5/m", "rate": "mail", 5: "mail"}},
        {"CONFIG": {"mail-failed-queue": 5}},
        {"CONFIG": ["mail-failed-queue"]},
        {"QUEUES": {"mail": {"rate": "5/m"}, 5: {"failed_queue": "x"}, "a": "x"}},
        {"QUEUES": ["mail"]},
    ):
        assert not any(number == "E049" for number, _ in found(of(**given)))


def test_one_namespace_by_two_names_of_its_server() -> None:
    given = of(NAMESPACES={"": "a:", "b": {**OTHER, "LOCATION": "redis://10.0.0.1"}})
    assert [number for number, _ in found(given)] == ["E015"]


def test_the_name_of_a_namespace_is_no_other_alias() -> None:
    given = of() | {"default/mail": {"LOCATION": "redis://10.0.0.7"}}
    assert ("E047", True) in [
        (number, "QLESS has one of this name" in text) for number, text in found(given)
    ]


def test_a_job_that_names_the_wrong_namespace_is_named() -> None:
    job_type = JobType(
        name="wrong", function=found, options=Options(queue="q", alias="default/mail")
    )
    with override_settings(QLESS=of()):
        [error] = [each for each in _options(job_type) if each.id]
    assert error.id == "django_qless.E049"
    assert "routes the queue 'q' to 'default'" in error.msg
    right = replace(job_type, options=Options(queue="mail", alias="default/mail"))
    with override_settings(QLESS=of()):
        assert list(_options(right)) == []


def test_in_tests_each_namespace_has_a_database_or_a_prefix() -> None:
    with override_settings(QLESS={"default": {"NAMESPACES": NAMESPACES}}):
        # A server that only a namespace names is not the project's: it is used.
        assert conf.alias("default").throwaway is not None
        assert conf.alias("default/report.*").location is not None
    given = {"LOCATION": URL, "TEST": {"LOCATION": "redis://t", "PREFIX": "t:"}}
    setting = {"default": {**given, "NAMESPACES": NAMESPACES}}
    prefixes = [
        settings_in_tests(each.options)[0]["PREFIX"]
        for each in members(setting).values()
    ]
    assert len({*prefixes}) == 3
    assert prefixes[0].startswith("t:")
    assert prefixes[1].startswith("t:{ql-mail}:")
