"""The deployment files: as the guide shows them, and as those read them who have to.

Each is read by its own tool where that is installed (systemd-analyze, check-jsonschema
with the schema of Compose, kubernetes-validate, honcho); the names of fields are checked
in any case, without PyYAML those of lines only.
"""

from __future__ import annotations

import configparser
import importlib
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from django.core.management import load_command_class

from django_qless.worker.server_checks import risks
from django_qless.worker.shutdown import GRACE
from tests.docs import deployment_tools
from tests.docs.pages import DOCS, pages
from tests.docs.project import Project, environment
from tests.real_servers import Server, available_kinds, poll

FOLDER = DOCS / "deployment"
FILES = sorted(path.name for path in FOLDER.iterdir())

#: The file, and what it has in front of the seconds from TERM to KILL.
KILLED_AFTER = {
    "qless-worker.service": r"TimeoutStopSec=(\d+)\n",
    "qless-long-worker.service": r"TimeoutStopSec=(\d+)\n",
    "compose.yaml": r"stop_grace_period: (\d+)s\n",
    "kubernetes.yaml": r"terminationGracePeriodSeconds: (\d+)\n",
}
#: Where platforms that read a Procfile decide it.
HEROKU = 30

SYSTEMD = {
    "Unit": {"Description", "Wants", "After"},
    "Service": {
        *("Type", "User", "WorkingDirectory", "EnvironmentFile", "Environment"),
        *("RuntimeDirectory", "ExecStart", "ExecReload", "KillMode", "OOMPolicy"),
        "MemoryMax",
        *("StateDirectory", "StateDirectoryMode"),
        *("TimeoutStopSec", "TimeoutStartSec", "WatchdogSec", "Restart", "RestartSec"),
        *("RestartPreventExitStatus", "NoNewPrivileges", "PrivateTmp"),
    },
    "Install": {"WantedBy"},
}
DOCKER = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "CMD"}

# The fields that may stand somewhere: None is any value, `...` any name.
PROBE = {
    "exec": {"command": None},
    **dict.fromkeys(("periodSeconds", "failureThreshold", "timeoutSeconds")),
}
FIELDS: dict[str, dict[Any, Any]] = {
    "compose.yaml": {
        "services": {
            ...: {
                **dict.fromkeys(("image", "build", "command", "volumes", "restart")),
                **dict.fromkeys(("stop_grace_period", "mem_limit", "ports")),
                "environment": {...: None},
                "depends_on": {...: {"condition": None}},
                "healthcheck": dict.fromkeys(
                    ("test", "interval", "timeout", "start_period", "retries")
                ),
            }
        },
        "volumes": {...: None},
    },
    "kubernetes.yaml": {
        "apiVersion": None,
        "kind": None,
        "metadata": {"name": None},
        "spec": {
            "replicas": None,
            "selector": {"matchLabels": {...: None}},
            "strategy": {
                "type": None,
                "rollingUpdate": {"maxSurge": None, "maxUnavailable": None},
            },
            "template": {
                "metadata": {"labels": {...: None}},
                "spec": {
                    "terminationGracePeriodSeconds": None,
                    "containers": {
                        **dict.fromkeys(("name", "image", "command")),
                        "env": {
                            "name": None,
                            "valueFrom": {"secretKeyRef": {"name": None, "key": None}},
                        },
                        "startupProbe": PROBE,
                        "livenessProbe": PROBE,
                        "readinessProbe": PROBE,
                        "resources": {"requests": {...: None}, "limits": {...: None}},
                        "volumeMounts": {"name": None, "mountPath": None},
                    },
                    "volumes": {"name": None, "emptyDir": {"medium": None}},
                },
            },
        },
    },
}


def text_of(name: str) -> str:
    return (FOLDER / name).read_text()


def commands(name: str) -> list[list[str]]:
    """Return the command lines in a file, as lists of words."""
    text = text_of(name)
    lists = re.findall(r"^ *(?:command: |test: |CMD )(\[.*\])$", text, re.MULTILINE)
    lines = re.findall(r"^(?:Exec\w+=|\w+: )(?!\[)(\S.*)$", text, re.MULTILINE)
    if name.endswith(".yaml"):
        lines = []
    return [*map(json.loads, lists), *map(shlex.split, lines)]


def worker_command(name: str) -> list[str]:
    """Return the words behind `manage.py qless_worker` in a file."""
    [words] = [words for words in commands(name) if "qless_worker" in words]
    assert words[1:3] == ["manage.py", "qless_worker"]
    return words[3:]


def health_commands(name: str) -> list[list[str]]:
    """Return the words behind `python` of the probes in a file."""
    return [
        words[words.index("-m") :]
        for words in commands(name)
        if "django_qless.health" in words
    ]


WITH_WORKER = [*KILLED_AFTER, "Procfile"]


def test_there_is_a_test_for_each_file() -> None:
    assert sorted([*WITH_WORKER, "Dockerfile"]) == FILES


@pytest.mark.parametrize("name", FILES)
def test_the_guide_shows_the_file(name: str) -> None:
    [page] = [page for page in pages() if page.name == "docs/guides/deployment.md"]
    assert text_of(name) in [block.code for block in page.blocks]


@pytest.mark.parametrize("name", WITH_WORKER)
def test_the_worker_understands_its_command_line(name: str) -> None:
    command = load_command_class("django_qless", "qless_worker")
    parser = command.create_parser("manage.py", "qless_worker")
    options = vars(parser.parse_args(worker_command(name)))
    assert options["reload"] is False
    patience = HEROKU
    if name in KILLED_AFTER:
        [found] = re.findall(KILLED_AFTER[name], text_of(name))
        patience = int(found)
    assert patience > options["shutdown_timeout"] + GRACE
    for words in health_commands(name):
        assert words[2] == options["health_file"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("deployment") / "made")
    made.start()
    made.add([])
    made.set_up()
    yield made
    made.stop_server()


@pytest.mark.parametrize("name", WITH_WORKER)
def test_worker_and_probes_run(project: Project, name: str) -> None:
    words, probes = worker_command(name), health_commands(name)
    path = str(project.directory / "health")
    if "--health-file" in words:
        words[words.index("--health-file") + 1] = path
    else:
        words += ["--health-file", path]
    probes = [["-m", "django_qless.health", path, *words[3:]] for words in probes]
    ready = ["-m", "django_qless.health", path, "--ready"]
    with project.log.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "qless_worker", *words],
            cwd=project.directory,
            env=environment(),
            stderr=log,
        )
    try:
        poll(lambda: probed(project, ready) == 0, what=project.log.read_text())
        assert [probed(project, probe) for probe in probes] == [0] * len(probes)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    assert code == 0, project.log.read_text()
    assert probed(project, ready) == 1


def probed(project: Project, words: list[str]) -> int:
    """Return the exit code of a probe."""
    command = [sys.executable, *words]
    return subprocess.run(
        command,
        cwd=project.directory,
        env=environment(),
        stdout=subprocess.DEVNULL,
        check=False,
    ).returncode


UNITS = [name for name in FILES if name.endswith(".service")]


def test_all_fields_of_the_units_are_known() -> None:
    found: dict[str, set[str]] = {}
    for name in UNITS:
        for section, keys in unit_of(name).items():
            found.setdefault(section, set()).update(keys)
    assert found == SYSTEMD


def unit_of(name: str) -> dict[str, set[str]]:
    """Return the fields of a unit by section."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text_of(name))
    return {section: {*unit[section]} for section in unit.sections()}


@pytest.mark.parametrize("name", UNITS)
def test_systemd_understands_the_unit(tmp_path: Path, name: str) -> None:
    tool = deployment_tools.systemd_analyze()
    if tool is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / name
    text = text_of(name)
    copy.write_text(text.replace("/srv/shop/venv/bin/python", sys.executable))
    told = subprocess.run(
        [tool, "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    about = [line for line in told.stderr.splitlines() if copy.name in line]
    assert about == []


def test_docker_knows_the_instructions() -> None:
    text = text_of("Dockerfile")
    assert {line.split()[0] for line in text.splitlines()} == DOCKER
    [command] = commands("Dockerfile")
    assert command[:2] == ["gunicorn", "shop.wsgi"]


@pytest.mark.parametrize("name", FIELDS)
def test_the_fields_are_known(name: str) -> None:
    text = text_of(name)
    if find_spec("yaml") is None:
        names = set(re.findall(r"(\w+):(?: |$)", text, re.MULTILINE))
        assert names <= {*named(FIELDS[name])} | own_names(name)
        return
    [content] = importlib.import_module("yaml").safe_load_all(text)
    assert not list(unknown(content, FIELDS[name]))


def unknown(value: Any, fields: Any) -> Iterator[str]:
    """Yield the fields of a YAML value that should not be there."""
    if fields is None:
        return
    if isinstance(value, list):
        for each in value:
            yield from unknown(each, fields)
        return
    for key, below in value.items():
        if key in fields or ... in fields:
            yield from unknown(below, fields.get(key, fields.get(...)))
        else:
            yield key


def named(fields: Any) -> Iterator[str]:
    """Yield the names of all fields."""
    for key, below in (fields or {}).items():
        if key is not ...:
            yield key
        yield from named(below)


def own_names(name: str) -> set[str]:
    """Return the names in a file that are ours to choose."""
    return {
        "compose.yaml": {"queue", "web", "worker", "QLESS_LOCATION"},
        "kubernetes.yaml": {"app", "cpu", "memory"},
    }[name]


@pytest.mark.parametrize("name", deployment_tools.MODULES)
def test_its_tool_accepts_the_file(name: str) -> None:
    command = deployment_tools.command(name)
    if command is None:
        pytest.skip(f"the tool that reads {name} is not installed")
    [path] = [*FOLDER.glob(name), *(DOCS / "monitoring").glob(name)]
    subprocess.run([*command, str(path)], check=True)


def test_kubernetes_finds_the_pods_by_their_labels() -> None:
    labels = re.findall(r"(?:matchLabels|labels): (\{.*\})", text_of("kubernetes.yaml"))
    assert len(labels) == 2
    assert len(set(labels)) == 1


def test_the_server_of_compose_keeps_jobs() -> None:
    [words] = [words for words in commands("compose.yaml") if "--appendonly" in words]
    assert words[0] == "valkey-server"
    assert words[words.index("--maxmemory-policy") + 1] == "noeviction"
    for kind in available_kinds():
        with Server(kind, *words[1:]) as server:
            assert list(risks(server.client().info())) == []


def test_the_procfile_starts_both() -> None:
    lines = text_of("Procfile").splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["web", "worker"]
    # honcho passes over lines that it does not understand: what has it found?
    if command := deployment_tools.command("Procfile"):
        words = [*command, str(FOLDER / "Procfile")]
        told = subprocess.run(words, capture_output=True, text=True, check=True)
        assert "(web, worker)" in told.stderr
