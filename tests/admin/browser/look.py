"""Takes screenshots of pages with something to show.

    python -m tests.admin.browser.look [options] [page ...]

A page is what follows /admin/django_qless/ in its URL, such as `queue/` or
`queue/mail/change/?tab=running`; without any, all pages are visited that the tests know.

    --looks light,dark   which of light, dark, narrow (320 px) and rtl (default: all)
    --to FOLDER          where the images go (default: looks/)
    --full               the whole page, not only what a window shows
    --stay               print the address and wait: for a browser of your own
    --hostile            with names that try to be markup
"""

from __future__ import annotations

import argparse
import os
import re
import signal
from pathlib import Path

import django

from tests.admin.browser.chrome import LOOKS, chromium, log_in
from tests.admin.browser.scene import PASSWORD, USER, Scene
from tests.admin.content import plain
from tests.admin.hostile import marked

WINDOW = {"width": 1280, "height": 1000}


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--looks", default=",".join(LOOKS))
    parser.add_argument("--to", type=Path, default=Path("looks"))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--hostile", action="store_true")
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from tests.admin.browser.pages import pages_of

    with Scene(marked(0) if asked.hostile else plain) as scene:
        pages = asked.pages or [
            url.removeprefix("/admin/django_qless/") for url in pages_of(scene.content)
        ]
        if asked.stay:
            print(f"{scene.url}/admin/ (user {USER}, password {PASSWORD}); end: Ctrl-C")
            signal.sigwait([signal.SIGINT])
            return
        asked.to.mkdir(parents=True, exist_ok=True)
        take(scene, pages, asked.looks.split(","), asked.to, full=asked.full)


def take(
    scene: Scene, pages: list[str], looks: list[str], folder: Path, *, full: bool
) -> None:
    """Save an image of each page in each look; print their paths and what was wrong."""
    with chromium() as browser:
        for look in looks:
            context = browser.new_context(**{"viewport": WINDOW, **LOOKS[look]})
            log_in(context, scene.url, USER, PASSWORD)
            page = context.new_page()
            page.on("console", lambda said: print("  console:", said.text))
            page.on("pageerror", lambda error: print("  error:", error))
            for path in pages:
                page.goto(f"{scene.url}/admin/django_qless/{path}")
                words = re.sub(r"[^\w.=-]+", "-", path).strip("-")[:80] or "index"
                image = folder / f"{words}-{look}.png"
                page.screenshot(path=image, full_page=full)
                print(image)
            context.close()


if __name__ == "__main__":
    main()
