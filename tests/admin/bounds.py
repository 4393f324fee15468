"""What every page costs when there is very much to show.

    python -m tests.admin.bounds [--small] [--only WORDS]

fills a server of its own with 1,000,000 jobs, 100,000 of them failed in 1,000 groups, 500
queues and 200 workers (two minutes), asks for every page as a superuser does, and prints
how many calls of Redis each makes, how long it takes (the median of five), how large it
is, and whether that is within the bounds. It ends with 1 if a page is not. A page that
searches may take a second; if it has found nothing by then, it goes on by itself.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote as quoted

import django

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from django.http import HttpResponse
    from django.test import Client as Browser

    from tests.admin.masses import Masses
    from tests.jobs_app.models import Feed

MOST_MS = 300
MOST_KIB = 512
MOST_MS_OF_A_SEARCH = 1_000
"""A search looks at a thousand jobs in each call, as many as its time allows."""

URLCONF = "tests.admin.shop"
"""The admin, and beside it ModelAdmins that show the jobs of their rows."""

#: What the page of a search says; the last if it had to stop, on a slow machine.
SEARCHES = rb"scanned [\d,]+ of|looked through|No job matches|will be searched"

#: What a page may send: a function that the server keeps from changing anything, too.
READS = re.compile(r"FCALL qless_\w+_read|INFO")


class Cost(NamedTuple):
    """What one page has cost."""

    url: str
    status: int
    commands: list[str]
    """What the server was sent."""
    size: int
    changes: int
    """What it has changed on the server: a page that only reads has none."""
    is_search: bool = False
    is_down: bool = False
    """Whether it, or a part of it, could not ask the server: that is cheap."""
    seconds: float = 0

    @property
    def troubles(self) -> list[str]:
        """In words, what is not as it has to be; the time is looked at if measured."""
        found = []
        if self.is_down:
            found.append("says that the server is down")
        if self.status != 200:
            found.append(f"status {self.status}")
        others = {each for each in self.commands if not READS.fullmatch(each)}
        if others:
            found.append(f"sends {', '.join(sorted(others))}")
        if self.size > MOST_KIB * 1024:
            found.append(f"{self.size / 1024:.0f} KiB")
        if self.changes:
            found.append(f"{self.changes} changes")
        if self.seconds * 1000 >= (MOST_MS_OF_A_SEARCH if self.is_search else MOST_MS):
            found.append(f"{self.seconds * 1000:.0f} ms")
        return found


def pages(masses: Masses, feed: Feed) -> dict[str, str]:
    """Return the URL of every page and every asking page, by what it is called here."""
    from tests.admin.routes import routes

    found = {}
    for route in routes(URLCONF):
        if route.ending == "recurring_reset":
            continue  # Only a declared one has the page; it is as that of "pause".
        if route.namespace != ("shop" if route.is_of_rows else "admin"):
            continue
        if route.is_of_rows:
            if route.model == "jobs_app_feed":
                found[route.name] = route.url(str(feed.pk))
            continue
        if not route.is_named:
            found[route.ending] = route.url()
            continue
        known = _named(masses)[route.model]
        for name in known[:2] if route.acts else known:
            found[f"{route.ending} {name}"] = route.url(name)
    lists = ("overview", "queue", "job", "entity", "failure", "worker", "recurring")
    app = "/admin/django_qless/"
    for query in (*_variants(masses), *(f"{each}/?live=1" for each in lists)):
        found[query] = app + query
    found["index"] = "/admin/"
    found["app index"] = app
    row = found["jobs_app_feed_jobs"]
    found |= {f"jobs_app_feed_jobs {q}": row + q for q in ("?state=failed", "?live=1")}
    return found


def _named(masses: Masses) -> dict[str, list[str]]:
    """Return by model what its pages are asked about."""
    return {
        "queue": [masses.large_queue, masses.queues[1], masses.queues[3]],
        "job": [
            *(masses.heavy, masses.popular, masses.eager),
            *(masses.running, masses.rich),
        ],
        "entity": [masses.entity_queue],
        "failure": [masses.large_group, masses.some_group],
        "worker": [masses.busy_worker],
        "recurring": [masses.schedule(0), masses.schedule(1)],
        "tracked": ["last-0"],
        "tag": [masses.large_tag],
        "option": ["heartbeat", f"{masses.large_queue}-heartbeat"],
    }


def _variants(masses: Masses) -> Iterator[str]:
    """Yield the forms of pages that ask for more than the usual one does."""
    from django_qless.admin.links import Links, quote

    size, queue = masses.size, quote(masses.large_queue)
    asked_queue = quoted(masses.large_queue)
    most = size.jobs - 2_000
    yield from (
        f"job/?{query}"
        for query in (
            *(f"state={state}" for state in ("waiting", "running", "scheduled")),
            *(f"state={state}" for state in ("depends", "stalled", "recurring")),
            *("state=failed", "state=complete", f"offset={most}", "offset=999999999"),
            *("klass=*nothing*", f"klass=*nothing*&offset={most // 2}"),
            *(
                "jid=nothing*",
                "jid=job-1*",
                f"jid={quoted(masses.heavy)}",
                "tag=nothing",
            ),
            *(
                f"tag={quoted(masses.large_tag)}",
                f"tag={quoted(masses.large_tag)}&klass=*nothing*",
            ),
            *(
                f"group={quoted(masses.large_group)}",
                f"worker={quoted(masses.busy_worker)}",
            ),
            *("state=failed&klass=*nothing*", f"queue={asked_queue}&state=failed"),
            *(f"queue={asked_queue}", f"queue={asked_queue}&tag=nothing&klass=*x*"),
            *("state=waiting&klass=*do1&live=1", "state=complete&klass=*nothing*"),
        )
    )
    tabs = ("waiting", "running", "scheduled", "depends", "stalled", "recurring")
    yield from (f"queue/{queue}/change/?tab={tab}" for tab in tabs)
    yield from (
        f"queue/{queue}/change/?{query}"
        for query in (
            *(f"tab=waiting&offset={size.jobs // 5}", "tab=depends&offset=2000"),
            *("live=1", "tab=waiting&live=1", "day=19000"),
        )
    )
    yield from (
        *("queue/?sort=name", "queue/?sort=name&offset=400", "queue/?q=nothing"),
        *("overview/?offset=480", "failure/?order=last", "failure/?offset=950"),
        *("worker/?offset=150", "recurring/?q=nothing", "recurring/?offset=250"),
        *("option/?offset=800", "tag/?offset=100", "tracked/?offset=200"),
        f"tag/{quote(masses.large_tag)}/change/?offset={size.jobs // 20}",
        f"failure/{quote(masses.large_group)}/change/?offset={size.failed // 3}",
        f"failure/{quote(masses.large_group)}/change/?klass=*nothing*",
        f"worker/{quote(masses.busy_worker)}/change/?offset=200",
        f"queue/{queue}/empty/?state=waiting",
        f"queue/{queue}/empty/?state=depends",
    )
    entities, entity = quote(masses.entity_queue), quoted(masses.large_entity)
    yield from (
        f"entity/{entities}/change/?tab={tab}"
        for tab in (
            *("fresh", "retrying", "running", "dead", "dead&sort=id"),
            *("dead&offset=100", "fresh&live=1"),
        )
    )
    yield from (
        f"entity/{entities}/{rest}"
        for rest in (
            *(f"show/?entity={entity}", f"show/?entity={entity}&offset=3"),
            *(f"text/?entity={entity}", f"bulk/?verb=kill&entity={entity}"),
            *("bulk/?verb=run", "bulk/?verb=revive", "bulk/?verb=delete-dead"),
        )
    )
    yield "entity/?offset=50"
    heavy = f"job/{quote(masses.heavy)}/"
    yield f"{heavy}change/?live=1"
    yield from (f"{heavy}text/?part={part}" for part in ("arguments", "failure"))
    yield f"job/{quote(masses.rich)}/text/?part=result"
    links = Links("admin", "default")
    for verb, selection in (
        ("retry", {"state": "failed"}),
        ("retry", {"group": masses.large_group}),
        ("cancel", {"state": "waiting"}),
        ("cancel", {"klass": "*nothing*"}),
        ("tag", {"queue": masses.large_queue}),
        ("move", {"tag": masses.large_tag}),
    ):
        address = links.bulk(verb, **selection)
        yield address.removeprefix("/admin/django_qless/")


def cost(server: redis.Redis, browser: Browser, url: str) -> Cost:
    """Return what a page costs, its time apart."""
    changes = _changes(server)
    commands, response = sent(server, lambda: browser.get(url))
    changes = _changes(server) - changes
    text = response.content
    return Cost(
        url,
        response.status_code,
        commands,
        len(text),
        changes,
        is_search=re.search(SEARCHES, text) is not None,
        is_down=b"does not answer" in text,
    )


def sent(
    server: redis.Redis, ask: Callable[[], HttpResponse]
) -> tuple[list[str], HttpResponse]:
    """Return the commands that the server is sent meanwhile, and what was answered.

    What a script or a function of the server itself calls is not among them.
    """
    with server.monitor() as watch:
        server.echo("begin")  # It may have opened a connection for that.
        response = ask()
        server.echo("end")
        told = (each for each in watch.listen() if each["client_type"] != "lua")
        words = (_named_command(each["command"]) for each in told)
        while next(words) != "ECHO begin":
            pass
        return list(takewhile(lambda each: each != "ECHO end", words)), response


def _named_command(text: str) -> str:
    """Return a command's name, with what it is told first: the name of a function."""
    name, *words = text.split(" ", 2)
    name = name.upper()
    return f"{name} {words[0]}" if name in ("FCALL", "ECHO") else name


def _changes(server: redis.Redis) -> int:
    """Return how often anything was changed since the server's start."""
    number: int = server.info("persistence")["rdb_changes_since_last_save"]
    return number


def timed(browser: Browser, url: str, times: int = 5) -> float:
    """Return the median of the seconds that a page takes."""
    taken = []
    for _ in range(times):
        before = time.perf_counter()
        browser.get(url)
        taken.append(time.perf_counter() - before)
    return statistics.median(taken)


def main() -> int:
    """Do what the command line asks for; return 1 if a page is out of bounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="as the tests load it")
    parser.add_argument("--only", default="", help="pages whose name has these words")
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from django.core.management import call_command
    from django.test import override_settings

    from tests.real_servers import Server

    with Server() as server:
        aliases = {"default": {"LOCATION": server.url}}
        with override_settings(
            QLESS=aliases, ROOT_URLCONF=URLCONF, ALLOWED_HOSTS=["testserver"]
        ):
            call_command("migrate", verbosity=0)
            return _measure(server.client(decode_responses=True), asked)


def _measure(server: redis.Redis, asked: argparse.Namespace) -> int:
    from django_qless.conf.connections import connections
    from tests.admin.masses import LARGE, SMALL, Masses
    from tests.admin.people import client_of
    from tests.jobs_app.models import Feed

    began = time.monotonic()
    feed, other = Feed.objects.create(title="news"), Feed.objects.create(title="old")
    size = SMALL if asked.small else LARGE
    masses = Masses(connections["default"], size)
    masses.load(feed, other)
    memory = server.info("memory")["used_memory_human"]
    print(f"Loaded in {time.monotonic() - began:.0f} s; {memory} of memory: {masses}.")
    browser = client_of("superuser")
    print(f"{'page':72} {'status':>6} {'calls':>5} {'ms':>5} {'KiB':>6}")
    outside = searches = 0
    chosen = {k: v for k, v in pages(masses, feed).items() if asked.only in k}
    for name, url in chosen.items():
        browser.get(url)  # Templates are read once.
        page = cost(server, browser, url)._replace(seconds=timed(browser, url))
        outside += bool(page.troubles)
        searches += page.is_search
        words = name if len(name) <= 72 else f"{name[:50]}…{name[-21:]}"
        print(
            f"{words:72} {page.status:6} {len(page.commands):5} "
            f"{page.seconds * 1000:5.0f} {page.size / 1024:6.0f}  "
            + ("OUT: " + ", ".join(page.troubles) if page.troubles else "within"),
            flush=True,
        )
    print(f"{len(chosen)} pages, {searches} of them search, {outside} out of bounds.")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
