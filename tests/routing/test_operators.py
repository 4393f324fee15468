"""Commands, monitoring and the admin show all namespaces of an alias, each named."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client as Browser
from django.test import override_settings
from prometheus_client.parser import text_string_to_metric_families

from django_qless import jobs
from django_qless.monitoring import health, lag, snapshot
from django_qless.monitoring.lag import lag_data
from django_qless.operations.crossing import carry_all
from django_qless.testing import run_jobs
from tests.admin import people
from tests.jobs_app.jobs import add, failing, send_welcome
from tests.management.commands import run
from tests.routing.conftest import DEFAULT, MAIL, NAMES, REPORTS, Places


@pytest.fixture
def handles(places: Places) -> list[Any]:
    """A job in each namespace."""
    return [add.using(queue=q).delay(1) for q in ("q", "mail", "report.x")]


def forget() -> None:
    for shared in (snapshot.snapshots, snapshot.statuses, lag.lags, health.workers):
        shared.forget()


def test_status_shows_all_namespaces_and_each_alone(handles: list[Any]) -> None:
    text = run("qless_status")
    for name, queue in zip(NAMES, ("q", "mail", "report.x"), strict=True):
        part = text.partition(f"namespace {name}:")[2]
        assert part.split("namespace ")[0].count(f"\n{queue} ") == 1
    found = json.loads(run("qless_status", "--json"))
    assert {*found} == {*NAMES}
    assert [queue["name"] for queue in found[REPORTS]["queues"]] == ["report.x"]
    (queue,) = json.loads(run("qless_status", "--json", "--alias", MAIL))["queues"]
    assert queue["name"] == "mail"
    (queue,) = json.loads(run("qless_status", "--json", "--alias", "default/"))[
        "queues"
    ]
    assert queue["name"] == "q"


def test_status_is_shown_again_and_again(
    handles: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", pause)
    lines = run("qless_status", "--watch", "0.5", "--json").splitlines()
    assert [{*json.loads(line)} for line in lines] == [{*NAMES}] * 2
    assert pauses == [0.5] * 2


def test_the_loss_of_a_server_hides_its_namespace_only(
    places: Places, handles: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    places.there.kill()
    with pytest.raises(CommandError, match=r"failed on default/report\.\*"):
        call_command("qless_status")
    out = capsys.readouterr().out
    assert "\nmail " in out
    with pytest.raises(CommandError):
        call_command("qless_doctor", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found[DEFAULT]
    assert ["PROBLEM", "server"] in [
        [each["level"], each["about"]] for each in found[REPORTS]
    ]


def test_a_namespace_that_is_away_says_so_in_its_place(
    places: Places, handles: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    places.there.kill()
    with pytest.raises(CommandError, match=r"^failed on default/report\.\*: .*sock"):
        call_command("qless_queue", "list")
    out = capsys.readouterr().out
    assert "\nmail " in out
    assert "sock" in out.partition(f"namespace {REPORTS}:")[2]
    with pytest.raises(CommandError, match="failed on"):
        call_command("qless_queue", "list", "--json")
    found = json.loads(capsys.readouterr().out)
    assert [queue["name"] for queue in found[MAIL]] == ["mail"]
    assert {*found} == {*NAMES}
    assert "sock" in found[REPORTS]["problem"]


def test_a_job_cannot_be_looked_for_while_a_namespace_is_away(
    places: Places, handles: list[Any]
) -> None:
    places.there.kill()
    with pytest.raises(CommandError, match="sock"):
        run("qless_jobs", "show", handles[2].jid)


def test_status_on_a_terminal_clears_it_once_for_all(
    handles: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    out = io.StringIO()
    out.isatty = lambda: True  # type: ignore[method-assign]
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("time.sleep", stop)
        call_command("qless_status", "--watch", stdout=out, no_color=True)
    assert out.getvalue().startswith("\033[H\033[J\nnamespace default:\n")
    assert out.getvalue().count("\033[H\033[J") == 1
    assert out.getvalue().count("namespace ") == 3


def test_jobs_of_a_group_are_retried_in_all_namespaces(
    places: Places, handles: list[Any]
) -> None:
    for queue in ("q", "report.x"):
        failing.using(queue=queue).delay("broken", "m")
    run_jobs(raise_failures=False)
    text = run("qless_jobs", "retry", "--group", "broken", "--no-input")
    parts = text.split("namespace ")[1:]
    told = ["retried: 1 job", "no jobs match: nothing to do", "retried: 1 job"]
    for name, part, words in zip(NAMES, parts, told, strict=True):
        assert part.startswith(f"{name}:\n{words}\n")
    assert [places[name].failed() for name in NAMES] == [{}] * 3


def test_audit_doctor_and_lists_go_through_all(handles: list[Any]) -> None:
    assert run("qless_audit").count("no violations") == 3
    listed = json.loads(run("qless_queue", "list", "--json"))
    assert [queue["name"] for queue in listed[MAIL]] == ["mail"]
    shown = json.loads(run("qless_jobs", "list", "--json"))
    assert {each["jid"] for each in shown["jobs"]} == {each.jid for each in handles}
    assert shown["total"] == 3
    assert "namespace default/mail:" in run("qless_config", "list")
    assert "namespace default/mail:" in run("qless_recurring", "list")
    assert run("qless_entities", "queues").count("no queue has entities") == 3


def test_at_verbosity_0_only_what_is_listed_has_headings(places: Places) -> None:
    assert run("qless_queue", "pause", "mail", "report.x", "-v", "0") == ""
    assert run("qless_audit", "-v", "0") == ""
    assert "namespace default/mail:" in run("qless_config", "list", "-v", "0")


def test_commands_act_where_the_queue_or_the_job_is(
    places: Places, handles: list[Any]
) -> None:
    run("qless_queue", "pause", "mail", "report.x", "--reason", "why")
    assert places[MAIL].queue_counts("mail").paused
    assert places[REPORTS].queue_counts("report.x").paused
    assert not places[DEFAULT].queue_counts("mail").paused
    done = json.loads(run("qless_queue", "resume", "mail", "report.x", "--json"))
    assert done == {
        MAIL: {"text": "resumed: mail"},
        REPORTS: {"text": "resumed: report.x"},
    }
    assert not places[MAIL].queue_counts("mail").paused
    run("qless_queue", "limit", "report.x", "--max-concurrency", "3")
    assert places[REPORTS].config_get("report.x-max-concurrency") == "3"
    assert places[DEFAULT].config_get("report.x-max-concurrency") is None
    assert handles[2].jid in run("qless_jobs", "show", handles[2].jid)
    run("qless_jobs", "move", "report.y", handles[2].jid)
    assert handles[2].refresh().queue == "report.y"
    run("qless_jobs", "move", "mail", handles[2].jid)
    carry_all("default")
    assert handles[2].refresh().alias == MAIL
    run("qless_jobs", "cancel", "--no-input", *(each.jid for each in handles))
    assert [each.refresh().state for each in handles] == ["canceled"] * 3
    failed = failing.using(queue="mail").delay("g", "m")
    run_jobs("mail", raise_failures=False)
    run("qless_jobs", "retry", "--no-input", "--queue", "mail")
    assert failed.refresh().state == "waiting"
    run("qless_queue", "empty", "mail", "--state", "waiting", "--no-input")
    assert failed.refresh().state == "canceled"


def test_options_are_set_in_all_namespaces_or_in_one(places: Places) -> None:
    run("qless_config", "set", "jobs-history", "60")
    assert [places[name].config_get("jobs-history") for name in NAMES] == ["60"] * 3
    run("qless_config", "set", "jobs-history", "70", "--alias", MAIL)
    assert places[MAIL].config_get("jobs-history") == "70"
    assert places[DEFAULT].config_get("jobs-history") == "60"
    with pytest.raises(CommandError, match="failed-queue of a queue"):
        run("qless_config", "set", "mail-failed-queue", "morgue", "--alias", MAIL)


def test_recurring_jobs_are_found_where_they_are(places: Places) -> None:
    handle = send_welcome.recur(7, every=60, key="k")
    other = add.recur(1, every=60)
    run("qless_recurring", "pause", handle.id, other.id)
    assert handle.refresh().paused
    assert other.refresh().paused
    assert {each.alias for each in (handle, other)} == {MAIL, DEFAULT}
    with pytest.raises(CommandError, match="no recurring job 'nothing'"):
        run("qless_recurring", "pause", "nothing")


# Monitoring.

TOKEN = "a-token-of-some-length"


@pytest.fixture
def get(places: Places) -> Iterator[Any]:
    browser = Browser(headers={"Authorization": f"Bearer {TOKEN}"})

    def ask(url: str) -> Any:
        forget()
        return browser.get(f"/qless/{url}")

    with override_settings(
        ROOT_URLCONF="tests.monitoring.urls", QLESS_MONITORING_TOKEN=TOKEN
    ):
        yield ask


def test_metrics_lag_and_health_cover_all_namespaces(
    places: Places, handles: list[Any], get: Any
) -> None:
    families = text_string_to_metric_families(get("metrics").text)
    up = {
        sample.labels["alias"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "qless_up"
    }
    assert up == dict.fromkeys(NAMES, 1.0)
    assert get("lag").json()["total"]["length"] == 3
    assert {*get("lag").json()["queues"]} == {"q", "mail", "report.x"}
    assert get("lag?queue=mail").json()["total"]["length"] == 1
    assert get("lag?alias=default/mail").json()["total"]["length"] == 1
    assert {*get("status").json()} == {*NAMES}
    assert get("status?alias=default/mail").json()["alias"] == MAIL
    assert get("health").json()["ok"]
    assert {*get("health?alias=default").json()["aliases"]} == {*NAMES}
    places[MAIL].beat("w", '{"queues": ["*"], "concurrency": 1}', [])
    served = get("health?queue=mail")
    assert served.json()["ok"], served.json()
    assert not get("health?queue=mail&queue=q").json()["ok"]
    assert get("health?queue=mail&max_lag=3600").json()["ok"]
    places.there.kill()
    forget()
    assert 'qless_up{alias="default/report.*"} 0' in run("qless_metrics")
    assert not get("health").json()["ok"]
    assert get("lag?queue=mail").json()["total"]["length"] == 1
    assert get("lag").status_code == get("status").status_code == 503
    assert get("status").json()[MAIL]["alias"] == MAIL
    assert {*get("status").json()[REPORTS]} == {"problem"}


def test_a_queue_in_two_namespaces_counts_twice(places: Places) -> None:
    for name in (DEFAULT, MAIL):
        places[name].put("", "mail", name, "shop.work", "{}")
    forget()
    assert lag_data("default")["queues"]["mail"]["waiting"] == 2
    assert lag_data("default", ["mail"])["queues"]["mail"]["waiting"] == 1


# The admin.


@pytest.fixture
def browser(db: None, places: Places) -> Any:
    with override_settings(ROOT_URLCONF="tests.admin.urls"):
        yield people.client_of("superuser")


def at(page: str) -> str:
    return f"/admin/django_qless/{page}"


def test_the_overview_has_a_row_for_each_namespace(
    browser: Any, handles: list[Any]
) -> None:
    for alias in ("", f"?alias={MAIL}"):
        text = browser.get(at("overview/") + alias).content.decode()
        for name in NAMES:
            assert f">{name}</a>" in text or f">{name}<" in text


def test_jobs_and_queues_are_found_in_other_namespaces(
    browser: Any, places: Places, handles: list[Any]
) -> None:
    jid = handles[2].jid
    places[REPORTS].put("", "report.x", "mine", "shop.work", "{}")
    for name in (jid, "mine"):
        shown = browser.get(at(f"job/{name}/change/"), follow=True)
        assert shown.status_code == 200
        assert "alias=default%2Freport." in shown.redirect_chain[0][0]
        # As a form sends it, whose other fields are empty.
        for more in ("", "&queue=&state="):
            shown = browser.get(at(f"job/?jid={name}{more}"), follow=True)
            assert shown.status_code == 200
            assert len(shown.redirect_chain) == 1
        assert not browser.get(
            at(f"job/?jid={name}&queue=x"), follow=True
        ).redirect_chain
    assert browser.get(at("job/nothing/change/")).status_code == 404
    shown = browser.get(at("queue/mail/change/"), follow=True)
    assert shown.status_code == 200
    assert "alias=default%2Fmail" in shown.redirect_chain[0][0]
    assert browser.get(at("queue/nothing/change/")).status_code == 404


def test_a_page_moves_a_job_elsewhere(
    browser: Any, places: Places, handles: list[Any]
) -> None:
    jid = handles[1].jid
    url = at(f"job/{jid}/move/") + f"?alias={MAIL}"
    answer = browser.post(url, {"queue": "q", "delay": "0"})
    assert answer.status_code == 302
    assert places[MAIL].moved([jid]) == [DEFAULT]
    carry_all("default")
    assert jobs[jid].alias == DEFAULT
