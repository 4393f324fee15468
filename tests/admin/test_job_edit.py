"""Editing what a job carries, and putting it again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_qless.conf.sealing import codec_of, open_text
from django_qless.core import Put
from tests.admin.job_steps import ECHO, act, done, failed, job, put, run, settle, url

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client

RENAMED = "tests.jobs_app.jobs.send_welcome"


def edited(client: Client, jid: str = "j1", **changes: Any) -> dict[str, Any]:
    """Return the fields of the form as they are first shown, with changes."""
    found = job(client, jid)
    fields = {
        "job_data": json.dumps(json.loads(found.data), indent=2),
        "queue": found.queue or "mail",
        "priority": found.priority,
        "retries": found.retries,
        "delay": "0",
        "tags": "\n".join(found.tags),
        "put": "itself",
    }
    return fields | changes


def test_edit_and_put_again(admin_browser: Browser, qless: Client) -> None:
    failed(qless, tags=["a"], context='{"locale":"de"}')
    asked = admin_browser.get(url("edit"))
    assert asked.context["form"].initial["queue"] == "mail"
    data = '{"v": 1, "args": [3, 4]}'
    fields = edited(qless, job_data=data, queue="other", tags="b\nc", retries="2")
    assert "in queue other again" in done(act(admin_browser, "edit", **fields))
    again = job(qless)
    assert (again.state, again.queue, again.retries) == ("waiting", "other", 2)
    assert json.loads(again.data)["args"] == [3, 4]
    assert (again.tags, again.context) == (("b", "c"), {"locale": "de"})


def test_unchanged_data_stay_to_the_byte(admin_browser: Browser, qless: Client) -> None:
    data = '{"v":1,"args":[1e3, 12345678901234567890]}'
    failed(qless, data=data)
    shown = admin_browser.get(url("edit")).context["form"].initial["job_data"]
    fields = edited(qless, job_data=shown.replace("\n", "\r\n"))
    done(act(admin_browser, "edit", **fields))
    assert job(qless).data == data


def test_a_new_job_like_a_complete_one(admin_browser: Browser, qless: Client) -> None:
    settle(qless, "j1", run(qless), "complete", '"done"', 60)
    asked = admin_browser.get(url("edit"))
    assert asked.context["form"].initial["put"] == "new"
    response = act(admin_browser, "edit", **edited(qless, put="new"))
    assert "A new" in done(response)
    (new,) = qless.jobs("waiting", "mail")
    assert new != "j1"
    assert response["Location"] == url("change", new)
    assert job(qless, new).data == job(qless).data
    assert job(qless).state == "complete"


@pytest.mark.parametrize("what", ["itself", "new"])
def test_a_canceled_job_is_put_again(
    admin_browser: Browser, qless: Client, what: str
) -> None:
    failed(qless, tags=["a"], context='{"locale":"de"}')
    before = job(qless)
    qless.cancel("j1")
    asked = admin_browser.get(url("edit"))
    assert "Its state is “canceled”" in asked.content.decode()
    assert asked.context["form"].initial["put"] == "itself"
    response = act(admin_browser, "edit", **edited(qless, put=what))
    assert done(response)
    (jid,) = qless.jobs("waiting", "mail")
    assert response["Location"] == url("change", jid)
    again = job(qless, jid)
    assert (again.state, again.data, again.tags) == ("waiting", before.data, ("a",))
    assert (again.context, again.retries) == ({"locale": "de"}, before.retries)
    assert qless.canceled() == ([] if what == "itself" else ["j1"])


@pytest.mark.parametrize("what", ["itself", "new"])
def test_canceled_job_is_put_again_with_its_unique_key(
    admin_browser: Browser, qless: Client, what: str
) -> None:
    failed(qless, unique="k")
    qless.cancel("j1")
    put(qless, "j2", unique="k")
    fields = edited(qless, put=what)
    page = act(admin_browser, "edit", **fields).content.decode()
    assert "Job j2 has its unique key" in page
    qless.cancel("j2")
    assert done(act(admin_browser, "edit", **fields))
    (jid,) = qless.jobs("waiting", "mail")
    assert job(qless, jid).unique == "k"


def test_canceled_job_of_a_renamed_type_is_put_again_with_all_its_keys(
    admin_browser: Browser, qless: Client
) -> None:
    key, former_key = f"{RENAMED}:k", "old.send:k"
    put(qless, klass=RENAMED, data='{"v":1,"args":[1]}', unique=key)
    qless.cancel("j1")
    put(qless, "j2", unique=former_key)
    page = act(admin_browser, "edit", **edited(qless)).content.decode()
    assert "Job j2 has its unique key" in page
    qless.cancel("j2")
    assert done(act(admin_browser, "edit", **edited(qless)))
    found = qless.put_many("", [Put("j2", "mail", "old.send", "{}", unique=former_key)])
    assert found.duplicates == {"j2": "j1"}


def test_what_is_not_remembered_is_not_put_again(
    admin_browser: Browser, qless: Client
) -> None:
    put(qless, data='{"v":1,"args":["' + "x" * 20_000 + '"]}')
    qless.cancel("j1")
    page = admin_browser.get(url("change")).content.decode()
    assert "too many to be kept" in page
    assert f'{url("edit")}"' not in page
    assert admin_browser.get(url("edit")).status_code == 404
    assert act(admin_browser, "edit", job_data="{}").status_code == 404


def test_a_running_job_is_not_put_again(admin_browser: Browser, qless: Client) -> None:
    run(qless)
    response = act(admin_browser, "edit", **edited(qless))
    assert response.status_code == 409
    assert "time it out first" in response.content.decode()
    assert job(qless).state == "running"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "must be an object"),
        ('{"v": 1, "args": {}}', "must be an object"),
        ('{"v": 1, "args": [1, 2, 3]}', "too many positional arguments"),
        ('{"v": 1, "args": [1], "kwargs": {"nope": 1}}', "unexpected keyword"),
    ],
)
def test_data_that_would_fail_are_refused(
    admin_browser: Browser, qless: Client, data: str, words: str
) -> None:
    failed(qless)
    response = act(admin_browser, "edit", **edited(qless, job_data=data))
    assert response.status_code == 409
    assert words in response.content.decode()
    assert job(qless).state == "failed"


def test_sensitive_values_survive_an_edit(
    admin_browser: Browser, qless: Client
) -> None:
    data = '{"v":1,"s":[0],"args":["secret",1]}'
    failed(qless, klass="elsewhere.unknown", data=data)
    asked = admin_browser.get(url("edit"))
    assert "secret" not in asked.content.decode()
    shown = asked.context["form"].initial["job_data"]
    fields = edited(qless, job_data=shown.replace("1\n  ]", "2\n  ]"))
    assert fields["job_data"] != shown
    done(act(admin_browser, "edit", **fields))
    assert json.loads(job(qless).data)["args"] == ["secret", 2]


def test_data_that_are_too_long_stay_as_they_are(
    admin_browser: Browser, qless: Client
) -> None:
    data = json.dumps({"v": 1, "args": ["<" * 300_000]})
    failed(qless, klass=ECHO, data=data)
    asked = admin_browser.get(url("edit"))
    assert "too long to be edited" in asked.content.decode()
    fields = edited(qless)
    del fields["job_data"]
    done(act(admin_browser, "edit", **fields))
    assert (job(qless).data, job(qless).state) == (data, "waiting")


def test_who_may_not_see_data_may_not_edit_them(
    as_user: Callable[[str], Browser], qless: Client
) -> None:
    failed(qless)
    browser = as_user("view+act_on_jobs")
    assert browser.get(url("edit")).status_code == 403
    assert act(browser, "edit", **edited(qless)).status_code == 403
    assert done(act(browser, "retry"))


def test_edited_data_are_encrypted_again(admin_browser: Browser, qless: Client) -> None:
    keys = {"ENCRYPTION_KEYS": ["A" * 43 + "="]}
    default = {**settings.QLESS["default"], **keys}
    with override_settings(QLESS={**settings.QLESS, "default": default}):
        codec = codec_of("default")
        assert codec is not None
        failed(qless, data=codec.seal('{"v":1,"args":["old"]}'))
        shown = admin_browser.get(url("edit")).context["form"].initial["job_data"]
        assert json.loads(shown)["args"] == ["old"]
        fields = edited(qless, job_data='{"v":1,"args":["new"]}')
        done(act(admin_browser, "edit", **fields))
        assert job(qless).data.startswith('"qless:fernet:')
        assert json.loads(open_text(job(qless).data))["args"] == ["new"]
        settle(qless, "j1", run_again(qless), "fail", "group", "message")
    before = job(qless).data
    fields = edited(qless, job_data='{"v":1,"args":["third"]}')
    assert "ENCRYPTION_KEYS" in act(admin_browser, "edit", **fields).content.decode()
    assert job(qless).data == before


def run_again(client: Client) -> str:
    """Let a worker hold the job; return its token."""
    (held,) = client.settle("worker-1", [], 1, ["mail"]).jobs
    return held.token
