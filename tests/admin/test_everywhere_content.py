"""The content that the suites look at is what it claims to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.core import Client
from tests.permissions import client_of

if TYPE_CHECKING:
    from tests.admin.content import Content
    from tests.real_servers import Server


def test_there_is_a_job_in_every_state(
    qless: Client, content: Content, server: Server
) -> None:
    """Without that the suites would look at pages that show less than they can."""
    states = {name: brief.state for name, brief in _briefs(qless, content).items()}
    for name in ("waiting", "scheduled", "running", "stalled", "depends"):
        assert states[name] == name
    assert states["failed"] == "failed"
    assert states["complete"] == "complete"
    with Client(client_of(server, "operator")) as operator:
        assert not operator.audit().violations


def _briefs(client: Client, content: Content):
    found = {each.jid: each for each in client.brief(list(content.jobs.values()))}
    return {name: found[jid] for name, jid in content.jobs.items()}
