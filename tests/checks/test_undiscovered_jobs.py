"""Jobs that a web process can enqueue and no worker will know: the check and the log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

JOB = "from django_qless import job\n@job\ndef send(): ...\n"
METHOD = """
from django_qless import job
class Mailer:
    @staticmethod
    @job
    def send(): ...
send = Mailer.send
"""
KNOWN = {
    "shop.apps": """
        from importlib import import_module
        from django.apps import AppConfig
        class ShopConfig(AppConfig):
            name = "shop"
            def ready(self):
                import_module("shop.of_" + "ready")
    """,
    "shop.models": "from shop import of_models",
    "shop.jobs": """
        from importlib import import_module
        from typing import TYPE_CHECKING
        import shop.of_jobs
        from . import tools
        from .helpers import NUMBER
        import_module("shop.named")
        if TYPE_CHECKING:
            import shop.for_types
        def lazily():
            from shop.in_a_function import send
    """,
    "shop.helpers": "from .of_helpers import NUMBER",
    "shop.of_helpers": f"NUMBER = 1\n{JOB}",
    "shop.tools": "from .of_tools import send",
    "mails.jobs": """
        from importlib import import_module
        for name in ["listed"]:
            import_module(f"{__name__}.{name}")
    """,
    "shop.of_ready": METHOD,
    "shop.of_models": JOB,
    "shop.of_jobs": JOB,
    "shop.of_tools": JOB,
    "shop.named": JOB,
    "shop.admin": JOB,
    "mails.jobs.listed": JOB,
}
UNKNOWN = {
    "shop.services": JOB,
    "shop.for_types": METHOD,
    "shop.in_a_function": JOB,
    "mails.jobs.forgotten": JOB,
}
WEB_PROCESS = """
import django, json, logging
from contextlib import suppress
from importlib import import_module
from django.core.checks import run_checks
from django.db import transaction

class Kept(logging.Handler):
    def emit(self, record):
        warned.append(record.getMessage())

warned = []
logging.getLogger("django_qless").addHandler(Kept())
django.setup()
for name in NAMES:
    send = import_module(name).send
    with suppress(KeyError), transaction.atomic():
        send.delay()
        raise KeyError  # nothing is enqueued: there is no server
checked = [it.msg for it in run_checks() if it.id == "django_qless.W005"]
print(json.dumps({"warned": warned, "checked": checked}))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a web process that imports and enqueues all these jobs logs and checks."""
    tmp_path = tmp_path_factory.mktemp("project")
    files = UNKNOWN | KNOWN
    for name, text in files.items():
        is_package = any(other.startswith(f"{name}.") for other in files)
        path = tmp_path.joinpath(*name.split("."), *["__init__"] * is_package)
        path.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name.split(".")[0] / "__init__.py").touch()
        path.with_suffix(".py").write_text(textwrap.dedent(text))
    (tmp_path / "its_settings.py").write_text(
        "from tests.settings import *\n"
        "INSTALLED_APPS.remove('django_qless')\n"
        "INSTALLED_APPS[:0] = ['django_qless', 'shop', 'mails']\n"
        "QLESS = {'default': {'LOCATION': 'redis://localhost:1/0'}}\n"
    )
    names = [name for name, text in files.items() if "@job" in text]
    done = subprocess.run(
        [sys.executable, "-c", f"NAMES = {names}\n{WEB_PROCESS}"],
        cwd=tmp_path,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "its_settings",
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    return {way: "\n".join(messages) for way, messages in said.items()}


@pytest.mark.parametrize("way", ["warned", "checked"])
def test_a_module_that_only_views_import_is_named(said: dict[str, str], way) -> None:
    for name in UNKNOWN:
        assert f"{name} is neither one of them nor imported there" in said[way]
    assert said[way].count("neither one of them") == len(UNKNOWN)
