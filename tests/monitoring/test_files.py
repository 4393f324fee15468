"""The dashboard, the alert rules and the autoscalers, as their own tools read them.

With Debian's `prometheus` a server of it scrapes a worker's host, and answers each query.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from django_qless.core import Client
from django_qless.core.commands.entities import Payload
from django_qless.outbox import tables
from tests.docs.pages import DOCS, pages
from tests.monitoring.conftest import TOKEN, Get
from tests.monitoring.test_server import served
from tests.monitoring.test_views import fill, samples
from tests.real_servers import Server, poll

FOLDER = DOCS / "monitoring"
RULES = FOLDER / "prometheus-rules.yaml"

needs_prometheus = pytest.mark.skipif(
    not shutil.which("prometheus") or not shutil.which("promtool"),
    reason="Debian's prometheus is not installed",
)


def dashboard_queries() -> Iterator[str]:
    """Yield the queries of the dashboard, for all aliases and queues."""
    board = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield re.sub(r"\$(alias|queue)\b", ".*", target["expr"])


def rule_queries() -> list[str]:
    """Return the expressions of the alert rules."""
    return re.findall(r"^ +expr: (.+)$", RULES.read_text(), re.MULTILINE)


def fill_all(client: Client) -> None:
    """Have a sample of each metric."""
    fill(client)
    client.config_set("mail-max-concurrency", 7)
    client.push("", "orders", "sync", [Payload("o-1", '{"v":1}', "1")])


def test_each_metric_of_a_query_is_exported(get: Get, qless: Client) -> None:
    fill_all(qless)
    known = {key[0] for key in samples(get("metrics").text)}
    used = [*dashboard_queries(), *rule_queries()]
    assert len(used) > 25
    for query in used:
        for name in re.findall(r"\bqless_\w+", query):
            assert name in known, query


@pytest.mark.django_db(databases="__all__")
def test_the_guide_names_each_metric_and_no_other(
    get: Get, qless: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "is_installed", lambda: True)
    fill_all(qless)
    known = {
        re.sub(r"_(bucket|gcount|gsum)$", "", key[0])
        for key in samples(get("metrics").text)
    }
    guide = (DOCS / "guides" / "monitoring.md").read_text()
    table = guide.partition("## Metrics\n")[2].partition("\n**Labels")[0]
    assert set(re.findall(r"`(qless_\w+)`", table)) == known


def test_the_guide_shows_the_files() -> None:
    [page] = [page for page in pages() if page.name == "docs/guides/monitoring.md"]
    shown = [block.code for block in page.blocks]
    for name in ("prometheus.yaml", "keda.yaml", "hpa.yaml"):
        assert (FOLDER / name).read_text() in shown, name


def test_the_autoscalers_read_what_is_there(get: Get, qless: Client) -> None:
    fill(qless)
    keda = (FOLDER / "keda.yaml").read_text()
    found = re.search(r"valueLocation: \"([\w.]+)\"", keda)
    url = re.search(r'url: "http://[^/]+/(lag\?\S+)"', keda)
    assert found
    assert url
    value = get(url[1].replace("=default", "=mail")).json()
    for member in found[1].split("."):
        value = value[member]
    assert value > 0


def test_kubernetes_knows_the_fields_of_the_hpa() -> None:
    if not find_spec("kubernetes_validate"):
        pytest.skip("kubernetes-validate is not installed")
    validate = import_module("kubernetes_validate").validate
    content = import_module("yaml").safe_load((FOLDER / "hpa.yaml").read_text())
    validate(content, "1.37", strict=True)


@needs_prometheus
def test_promtool_accepts_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True)
    config = str(FOLDER / "prometheus.yaml")
    words = ["promtool", "check", "config", "--syntax-only", config]
    subprocess.run(words, check=True)


def asked(port: int, path: str, **query: str) -> Any:
    """Return what Prometheus answers; None while it does not."""
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urlencode(query)}"
    try:
        with urlopen(url, timeout=20) as response:
            return json.load(response)["data"]
    except URLError:
        return None


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@needs_prometheus
def test_prometheus_answers_each_query(
    server: Server, qless: Client, tmp_path: Path
) -> None:
    fill(qless)
    qless.pause("feeds", "why")
    port = free_port()
    (tmp_path / "token").write_text(TOKEN)
    with served(server, TOKEN) as (scraped, _):
        config = (FOLDER / "prometheus.yaml").read_text()
        for old, new in (
            ("/etc/prometheus/qless-token", str(tmp_path / "token")),
            ("/etc/prometheus/prometheus-rules.yaml", str(RULES)),
            ("worker.internal:9108", f"127.0.0.1:{scraped}"),
            ("scrape_interval: 15s", "scrape_interval: 1s"),
        ):
            assert old in config
            config = config.replace(old, new)
        path = tmp_path / "prometheus.yaml"
        path.write_text(config)
        words = [
            "prometheus",
            f"--config.file={path}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(words, stderr=log)
        try:
            # Two scrapes at least, which rates need.
            scrapes = "count_over_time(qless_up[1m]) > 2"
            poll(
                lambda: (asked(port, "query", query=scrapes) or {}).get("result"),
                what=(tmp_path / "log").read_text(),
            )
            for query in dashboard_queries():
                found = asked(port, "query", query=query)
                wants_limit = "memory_max_bytes" in query
                assert found["result"] or wants_limit, query
                wants_places = "qless_worker_jobs" in query
                assert wants_places or "NaN" not in json.dumps(found), query
            for query in rule_queries():
                assert asked(port, "query", query=query) is not None, query
            firing = {
                query.split("[")[0].split(" ")[0]
                for query in rule_queries()
                if asked(port, "query", query=query)["result"]
            }
            # Of the rules without their patience: a pause, and a queue without a worker.
            assert {"qless_queue_served", "qless_queue_paused"} <= firing
            [group] = asked(port, "rules")["groups"]
            assert [rule["health"] for rule in group["rules"]].count("err") == 0
        finally:
            process.terminate()
            process.wait(30)
