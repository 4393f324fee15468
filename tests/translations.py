"""GNU gettext's programs, and what of them a machine lacks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

LOCALE = Path(__file__).parents[1] / "django_qless" / "locale"


def missing() -> list[str]:
    """Return, in words, what the tests of translations lack on this machine."""
    if shutil.which("xgettext") and shutil.which("msgattrib"):
        return []
    return ["the completeness of translations (apt-get install gettext)"]


def languages() -> list[str]:
    """Return the languages that there are."""
    return sorted(path.name for path in LOCALE.iterdir() if path.is_dir())


def selected(catalogue: Path, *options: str) -> list[str]:
    """Return the texts of a catalogue that msgattrib selects."""
    command = ["msgattrib", "--no-wrap", *options, str(catalogue)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    texts = [line for line in found.splitlines() if line.startswith("msgid ")]
    return [text for text in texts if text != 'msgid ""']
