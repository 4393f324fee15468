"""Every text on every page passes through a translation, errors of the core among them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from django_qless.admin.error_texts import DETAILS, EXPLANATIONS, error_text
from django_qless.core import exceptions
from tests.admin.browser.pages import pages_of
from tests.admin.content import fill
from tests.admin.pseudo_locale import LANGUAGE, pseudo_locale, spoken
from tests.admin.reading import Page
from tests.admin.routes import places
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from django.test import Client as Browser

    from django_qless.core import Client

pytestmark = pytest.mark.django_db

#: Names that are the same in every language: of this test, of servers, of options.
NAMES = re.compile(
    r"superuser|default|other|common|application|deep|prefork × 4|qless|noeviction|"
    r"(Valkey|Redis) [\d.]+|Europe/Berlin|UTC|C[SD]T|import-2026|"
    r"entity-[0-9a-f]{40}|jid|[a-z]+(-[a-z]+)*-(history|age|period|count|bytes)|"
    r"[α-ω]+[-.]\w+(@run-\d+)?( \d)?|heartbeat|(tests|rows_app)\.[\w.-]+"
)
APP = "/admin/django_qless/"


def greek(of: str) -> str:
    """Return words of a project that are not in Latin letters."""
    return "".join(chr(0x3B1 + ord(each) % 17) for each in of)


def english(html: str) -> set[str]:
    """Return the texts of a page that have words in Latin letters."""
    texts = {text: NAMES.sub("", text) for text in spoken(Page(html).root)}
    return {text for text, rest in texts.items() if re.search("[A-Za-z]{2,}", rest)}


def test_each_text_of_a_page_is_translated(
    qless: Client, admin_browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = fill(qless, greek)
    rows = {"recurring_reset": ["-"]}
    asking = places(content, "tests.admin.urls", rows, most=1)
    urls = [*pages_of(content), *(place.url for place in asking)]
    found: dict[str, str] = {}
    with pseudo_locale(monkeypatch):
        for url in urls:
            answer = admin_browser.get(url, headers={"accept-language": LANGUAGE})
            found |= dict.fromkeys(english(answer.content.decode()), url)
    assert found == {}


def test_errors_of_the_core_are_translated(
    qless: Client, admin_browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = fill(qless, greek)
    queue, jobs = content.queues[0], content.jobs
    ticked = {"jid": [jobs["complete"], jobs["waiting"]]}
    step = {
        "every": "",
        "timezone": "",
        "missed": "last",
        "queue": queue,
        "retries": "1",
    }
    edit = f"{APP}recurring/{content.schedules[1]}/edit/"
    asked: list[tuple[str, dict[str, object], str]] = [
        (f"{APP}job/?group=ενα&state=waiting", {}, "none has the state"),
        (f"{APP}job/?jid=*ενα", {}, "its beginning and a"),
        (f"{APP}queue/{queue}/forget/", {"post": "1"}, "is in use"),
        (f"{APP}job/{jobs['waiting']}/cancel/", {"post": "1"}, "is a dependency of"),
        (f"{APP}job/{jobs['running']}/move/", {"queue": "*"}, "must name one queue"),
        (edit, {**step, "priority": "0", "cron": "ενα"}, "five are needed"),
        (edit, {**step, "priority": "0", "cron": "0 0 31 2 *"}, "never ticks"),
        (f"{APP}job/bulk/", {"verb": "ενα", **ticked}, "must be one of"),
    ]
    for url, data, said in asked:
        ask = admin_browser.post if data else admin_browser.get
        assert said in ask(url, data).content.decode(), url
        with pseudo_locale(monkeypatch):
            answer = ask(url, data, headers={"accept-language": LANGUAGE})
            html = answer.content.decode()
            assert said not in html, url


def test_a_server_that_is_away_is_told_of_in_the_users_language(
    admin_browser: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = {"default": {"LOCATION": f"unix://{tmp_path}/nowhere.sock"}}
    with override_settings(QLESS=gone), pseudo_locale(monkeypatch):
        for path in ("overview/", "queue/"):
            answer = admin_browser.get(
                APP + path, headers={"accept-language": LANGUAGE}
            )
            assert "othing was changed" not in answer.content.decode()


def classes(base: type[exceptions.QlessError]) -> Iterable[type[exceptions.QlessError]]:
    """Yield the errors of the core."""
    for each in base.__subclasses__():
        if each.__module__ == exceptions.__name__:
            yield each
            yield from classes(each)


def test_each_class_of_errors_has_its_explanation() -> None:
    assert set(EXPLANATIONS) >= {*classes(exceptions.QlessError)}
    for error, text in EXPLANATIONS.items():
        assert str(text) == error.explanation()


@pytest.mark.parametrize(
    "error",
    [
        exceptions.JobNotFound("cancel(): Job j1 does not exist"),
        exceptions.DuplicateJob(
            '"j2" put(): The unique key k of job j1 belongs to job j2, which is waiting'
        ),
        exceptions.NotPermitted(
            "NOPERM User worker has no permissions to run the 'scan' command"
        ),
        exceptions.TooBig(
            "data has 600,000 bytes, at most 524,288 are allowed", done=3
        ),
        exceptions.WrongState("Job j1 has not failed: it is running"),
        exceptions.ConnectionLost("Error 111 connecting to localhost:6379"),
        ValueError("whatever it is"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_in_english_nothing_changes(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert error_text(error) == str(error)
    if isinstance(error, exceptions.QlessError):
        with pseudo_locale(monkeypatch):
            assert error.explanation() not in error_text(error)


#: Said by Python's inspect, or put together from the words of cronsim.
CALLS = ("argument", "its %(field)s is wrong")


@pytest.mark.parametrize("template", DETAILS)
def test_each_known_text_is_still_said(template: str) -> None:
    """The longest part between values stands in the code that says it."""
    longest = max(re.split(r"%\(\w+\)s", template), key=len)
    if any(word in template for word in CALLS):
        return
    assert any(longest[:24].strip() in source for source in sources()), template


def sources() -> list[str]:
    """Return the code that errors come from, the parts of each text in one."""
    files = [*(ROOT / "lua").rglob("*.lua")]
    for room in ("core", "conf", "operations", "worker", "schedules"):
        files += (ROOT / "django_qless" / room).rglob("*.py")
    joined = re.compile(r"""["']\s*(?:\.\.)?\s*\n\s*(?:\.\.\s*)?f?["']""")
    return [joined.sub("", path.read_text()) for path in files]
