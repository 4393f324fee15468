"""`make admin` as a user meets it: a browser's requests, a worker, real content."""

from __future__ import annotations

import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import pytest

from tests.acceptance.example import ROOT, Demo, environment
from tests.real_servers import poll

PATIENCE = 120.0

PAGES = [
    *("overview/", "queue/", "job/", "failure/", "worker/", "recurring/"),
    *("tracked/", "tag/", "option/"),
]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Site:
    """The admin that the program shows, and a browser that looks at it."""

    demo: Demo
    process: subprocess.Popen[str]
    port: int
    browser: OpenerDirector

    def get(self, path: str, **data: str) -> str:
        """Return a page; with data, what a POST of them leads to."""
        address = f"http://127.0.0.1:{self.port}{path}"
        body = urlencode(data).encode() if data else None
        with self.browser.open(address, body, timeout=120) as response:
            return str(response.read().decode())

    def log_in(self, password: str) -> str:
        """Return the page that logging in leads to."""
        return self.send(
            "/admin/login/?next=/admin/", username="demo", password=password
        )

    def send(self, path: str, **data: str) -> str:
        """Fill in the form of a page, and return what its POST leads to."""
        token = re.search(r'csrfmiddlewaretoken" value="(\w+)', self.get(path))
        assert token is not None
        return self.get(path, csrfmiddlewaretoken=token[1], **data)

    def end(self, number: int) -> str:
        """Send the program a signal; return what it printed until it ended."""
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=PATIENCE)
        return output


def opened(demo: Demo, port: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "open_admin.py", "--port", str(port)],
        cwd=demo.directory,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def first_words(process: subprocess.Popen[str]) -> str:
    """Return what the program prints when all is there, or until it ends."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        assert selector.select(PATIENCE), "nothing was printed"
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "Ctrl-C" in line:
            break
    return "".join(lines)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    copy = Demo.copied_to(tmp_path / "example_project")
    # What it measures, as it stands beside it in the repository.
    (tmp_path / "django_qless").symlink_to(ROOT / "django_qless" / "core")
    yield copy
    copy.close()


@pytest.fixture
def site(demo: Demo) -> Iterator[Site]:
    port = free_port()
    process = opened(demo, port)
    try:
        words = first_words(process)
        assert f"http://127.0.0.1:{port}/admin/django_qless/overview/" in words
        assert "log in as demo with the password demo" in words
        cookies = HTTPCookieProcessor(CookieJar())
        yield Site(demo, process, port, build_opener(cookies))
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def test_every_page_has_something_to_show(site: Site) -> None:
    assert "Please enter the correct" in site.log_in("wrong")
    assert "Job queue" in site.log_in("demo")
    wait_for_the_worker(site)
    pages = {page: site.get(f"/admin/django_qless/{page}") for page in PAGES}
    assert not [page for page, text in pages.items() if "does not answer" in text]
    assert "publishing" in pages["queue/"]
    upkeep = site.get("/admin/django_qless/job/?queue=upkeep")
    assert "codebase.Package.keep_fresh" in upkeep
    assert "SyntaxError" in pages["failure/"]
    assert "codebase.Package.summarise" in pages["recurring/"]
    assert "codebase.Package.rank" in pages["tracked/"]
    assert "follow-up" in pages["tag/"]
    assert "jobs-history" in pages["option/"]
    paused = site.get("/admin/django_qless/queue/publishing/change/")
    assert "There is no server at https://figures.example/packages yet" in paused
    a_package_has_its_jobs(site)
    the_shop_is_at_work(site)
    no_page_tells_the_secret(site, pages)
    it_ends_at_a_ctrl_c(site)


def wait_for_the_worker(site: Site) -> None:
    """Wait until everything is measured, and what fails has failed."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        status = site.demo.status()
        names = {queue["name"]: queue for queue in status["queues"]}
        busy = ("measurements", "summaries")
        if len(status["failures"]) == 3 and not any(
            names[name][state]
            for name in busy
            for state in ("running", "depends", "scheduled")
        ):
            # One, and perhaps the runner of its detached job.
            worker, *runners = sorted(each["name"] for each in status["workers"])
            assert all(name.startswith(f"{worker}-") for name in runners)
            assert names["upkeep"]["running"] == 1
            return
    raise AssertionError(f"the worker does not come to rest: {status}")


def a_package_has_its_jobs(site: Site) -> None:
    (package,) = site.demo.rows("SELECT * FROM codebase_package WHERE name='samples'")
    change = site.get(f"/admin/codebase/package/{package['id']}/change/")
    path = f"/admin/codebase/package/{package['id']}/jobs/"
    assert f'href="{path}"' in change
    assert path in site.get("/admin/codebase/package/")
    page = site.get(path)
    assert "codebase.Package.publish" in page
    put = site.send(f"{path}enqueue/?job=scan", job="scan", arguments="[]")
    assert "Enqueued codebase.Package.scan as job" in put
    refused = f"{path}enqueue/"
    with pytest.raises(HTTPError, match="400"):
        site.send(refused, job="publish", arguments="[1]")


def the_shop_is_at_work(site: Site) -> None:
    """Each kind of work can be seen, and be enqueued by an action."""
    queues = "/admin/django_qless/queue"
    listed = site.get(f"{queues}/")
    names = ("orders", "prices", "exports", "archives")
    assert [name for name in names if f"{queues}/{name}/change/" not in listed] == []
    jobs = site.get("/admin/django_qless/job/?queue=prices")
    assert "shop.jobs.fetch_price" in jobs
    assert "shop.Order.sync" in site.get("/admin/django_qless/job/?queue=orders")
    config = site.get("/admin/django_qless/option/")
    assert "shop.jobs.fetch_price-rate-of-type" in config
    (order,) = site.demo.rows("SELECT id FROM shop_order WHERE number = 'O-1'")
    acted(site, "shop/order", str(order["id"]), "push_versions", "Pushed 8 versions.")
    (package,) = site.demo.rows("SELECT id FROM codebase_package WHERE name='samples'")
    acted(site, "codebase/package", str(package["id"]), "archive", "Queued: each gets")
    archived = site.demo.directory / "archives" / "samples.zip"
    poll(archived.exists, what="the samples are archived", seconds=PATIENCE)
    poll(
        lambda: site.demo.rows("SELECT * FROM shop_price"),
        what="a price is fetched",
        seconds=PATIENCE,
    )
    poll(
        lambda: site.demo.rows("SELECT * FROM shop_order WHERE number='O-1' AND runs"),
        what="the order is brought up to date",
        seconds=PATIENCE,
    )
    poll(
        lambda: site.demo.rows("SELECT * FROM shop_export"),
        what="an export is made",
        seconds=PATIENCE,
    )
    for model, words in (("price", "Enqueued 200 questions"), ("export", "exports")):
        (row, *_) = site.demo.rows(f"SELECT id FROM shop_{model}")
        acted(site, f"shop/{model}", str(row["id"]), "ask_again", words)


def acted(site: Site, model: str, row: str, action: str, said: str) -> None:
    """Have an action of the admin done with a row; it must answer with these words."""
    page = f"/admin/{model}/"
    assert said in site.send(page, action=action, _selected_action=row)


def no_page_tells_the_secret(site: Site, pages: dict[str, str]) -> None:
    listed = site.get("/admin/django_qless/job/?queue=publishing")
    found = re.search(r"/admin/django_qless/job/[^/]+/change/", listed)
    assert found is not None
    page = site.get(found[0])
    assert "[hidden]" in page
    assert not [text for text in (*pages.values(), page) if "a secret" in text]


def it_ends_at_a_ctrl_c(site: Site) -> None:
    assert "The jobs are kept" in site.end(signal.SIGINT)
    assert site.process.returncode == 0
    status = site.demo.status()
    assert status["workers"] == []
    upkeep = next(queue for queue in status["queues"] if queue["name"] == "upkeep")
    assert (upkeep["waiting"], upkeep["running"]) == (1, 0)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", site.port))


def test_it_ends_when_it_is_told_to(site: Site) -> None:
    assert "The jobs are kept" in site.end(signal.SIGTERM)
    assert site.demo.status()["workers"] == []


def test_a_port_that_is_taken(demo: Demo) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        refused = demo.run("open_admin.py", "--port", str(listener.getsockname()[1]))
    assert refused.returncode == 1
    assert "try make admin PORT=8001" in refused.stderr
    assert not (demo.directory / "db.sqlite3").exists()


def test_the_user_is_for_debugging_only(demo: Demo) -> None:
    settings = demo.directory / "project" / "settings.py"
    written = settings.read_text()
    settings.write_text(written.replace("DEBUG = True", "DEBUG = False"))
    refused = demo.run("open_admin.py", "--port", str(free_port()))
    assert refused.returncode == 1
    assert "is for DEBUG = True only" in refused.stderr
    assert not (demo.directory / "db.sqlite3").exists()
