"""Which pages a visit of the whole admin has: each of them, in each of its forms."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote as quoted

from django_qless.admin.links import quote
from tests.admin.routes import names

if TYPE_CHECKING:
    from tests.admin.content import Content

APP = "/admin/django_qless/"

LISTS = (
    *("overview", "queue", "job", "entity", "failure", "worker"),
    *("recurring", "tracked", "tag", "option"),
)
QUEUE_TABS = ("waiting", "running", "scheduled", "depends", "stalled", "recurring")
ENTITY_TABS = ("fresh", "retrying", "running", "dead", "dead&sort=id")
SEARCHES = (
    "?state=complete",
    "?state=waiting&klass=tests.*&tag=common",
    "?jid=no-such-job",
)


def pages_of(content: Content) -> list[str]:
    """Return the paths of the pages that show something; actions are apart."""
    known = names(content)
    jobs = content.jobs
    found = [f"{APP}", *(f"{APP}{model}/" for model in LISTS)]
    found += [
        f"{APP}queue/{quote(content.queues[0])}/change/?tab={t}" for t in QUEUE_TABS
    ]
    found.append(f"{APP}queue/{quote(content.queues[1])}/change/")
    found += [f"{APP}job/{query}" for query in SEARCHES]
    found += [f"{APP}job/{quote(jid)}/change/" for jid in jobs.values()]
    entities = f"{APP}entity/{quote(content.entity_queues[0])}/"
    found += [f"{entities}change/?tab={tab}" for tab in ENTITY_TABS]
    found += [f"{entities}show/?entity={quoted(name)}" for name in content.entities]
    found += [f"{entities}show/?entity={quoted(content.entities[0])}&part=dying"]
    found += [f"{entities}text/?entity={quoted(content.entities[0])}"]
    text = f"{APP}job/{quote(jobs['failed'])}/text/?part="
    found += [f"{text}arguments", f"{text}failure"]
    for model in ("failure", "worker", "recurring", "tag", "option"):
        found += [f"{APP}{model}/{quote(name)}/change/" for name in known[model]]
    return found
