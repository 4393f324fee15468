"""Jobs in the states that tests of their actions need, and the actions as posts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.messages import get_messages
from django.urls import reverse

from django_qless.admin.links import quote
from django_qless.core import Put, Settlement

if TYPE_CHECKING:
    from django.http import HttpResponse
    from django.test import Client as Browser

    from django_qless.core import Client, Job

WORKER = "worker-1"
ADD = "tests.jobs_app.jobs.add"
ECHO = "tests.jobs_app.jobs.echo"


def put(client: Client, jid: str = "j1", queue: str = "mail", **options: Any) -> str:
    """Put a job; return its jid."""
    data = options.pop("data", '{"v":1,"args":[1,2]}')
    klass = options.pop("klass", ADD)
    client.put_many("", [Put(jid, queue, klass, data, **options)])
    return jid


def run(client: Client, jid: str = "j1", **options: Any) -> str:
    """Put a job and let a worker hold it; return its token."""
    put(client, jid, **options)
    (held,) = client.settle(WORKER, [], 1, ["mail"]).jobs
    assert held.jid == jid
    return held.token


def settle(client: Client, jid: str, token: str, verb: str, *args: Any) -> None:
    """End a job as a worker does."""
    assert not client.settle(
        WORKER, [Settlement(jid, token, verb, args)], 0, ["-"]
    ).refused


def failed(client: Client, jid: str = "j1", **options: Any) -> str:
    """Put a job and let it fail."""
    settle(client, jid, run(client, jid, **options), "fail", "boom", "it broke")
    return jid


def url(verb: str, jid: str = "j1", **query: str) -> str:
    """Return the URL of an action."""
    path = reverse(f"admin:django_qless_job_{verb}", args=[quote(jid)])
    return f"{path}?{urlencode(query)}" if query else path


def act(browser: Browser, verb: str, jid: str = "j1", **fields: Any) -> HttpResponse:
    """Do it, as the form on the asking page would."""
    return browser.post(url(verb, jid), fields)


def done(response: HttpResponse) -> str:
    """Return the message that tells what was done."""
    assert response.status_code == 302, response.content.decode()
    *_, message = get_messages(response.wsgi_request)
    return str(message)


def job(client: Client, jid: str = "j1") -> Job:
    """Return a job that must be there."""
    found = client.get(jid)
    assert found is not None
    return found
