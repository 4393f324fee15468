"""Takes the pictures of the documentation: the example project in Django's admin.

    python docs/screenshots.py      (make screenshots)

Opens the admin of a copy of the example, so that no picture shows a path of yours, with a
worker at work, and saves pages to docs/images/. Needs Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.admin.browser.chrome import LOOKS, chromium, log_in, missing  # noqa: E402
from tests.real_servers import free_port, poll  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

IMAGES = ROOT / "docs" / "images"
SETTLED = 30.0
"""Seconds after which there is something to see in the charts."""


def overview(page: Page, admin: str) -> None:
    """Go to the overview."""
    page.goto(f"{admin}/overview/")


def failed_job(page: Page, admin: str) -> None:
    """Go to a failed job with a traceback."""
    page.goto(f"{admin}/failure/SyntaxError/change/")
    page.click("#content table a[href*='/job/']")
    page.wait_for_load_state()


def running_job(page: Page, admin: str) -> None:
    """Go to the job that keeps the worker busy."""
    page.goto(f"{admin}/queue/upkeep/change/?tab=running")
    page.click("#content table a[href*='/job/']")
    page.wait_for_load_state()


#: By the name of the image: how to get to the page, and its look.
PICTURES = {
    "overview": (overview, "light"),
    "failed-job": (failed_job, "light"),
    "running-job": (running_job, "dark"),
}


def main() -> int:
    """Take the pictures; return the exit code."""
    if lacking := missing(axe=False):
        print("\n".join(lacking), file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="django_qless-") as folder:
        copy = Path(folder)
        for part in ("django_qless", "example_project"):
            left_out = shutil.ignore_patterns("__pycache__", ".qless", "*.sqlite3*")
            shutil.copytree(ROOT / part, copy / part, ignore=left_out)
        picture(copy)
    return 0


def picture(copy: Path) -> None:
    """Take the pictures of a copy of the example."""
    port = free_port()
    command = [sys.executable, "open_admin.py", "--port", str(port)]
    with subprocess.Popen(
        command,
        cwd=copy / "example_project",
        env={**os.environ, "PYTHONPATH": str(copy)},
        stdout=subprocess.PIPE,
        text=True,
    ) as admin:
        assert admin.stdout is not None
        said = admin.stdout
        try:
            poll(lambda: "Ctrl-C" in said.readline(), what="the admin is open")
            time.sleep(SETTLED)
            take(f"http://127.0.0.1:{port}")
        finally:
            admin.terminate()
            # Its last words: it must be able to say them.
            admin.communicate()


def take(site: str) -> None:
    """Save each picture."""
    IMAGES.mkdir(exist_ok=True)
    with chromium() as browser:
        for name, (go, look) in PICTURES.items():
            window = {"width": 1400, "height": 900}
            context = browser.new_context(**{"viewport": window, **LOOKS[look]})
            log_in(context, site, "demo", "demo")
            page = context.new_page()
            go(page, f"{site}/admin/django_qless")
            image = IMAGES / f"{name}.png"
            page.screenshot(path=image, full_page=True)
            print(image)
            context.close()


if __name__ == "__main__":
    sys.exit(main())
