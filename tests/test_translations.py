"""The translations are complete, compiled, and of what the code says now."""

from __future__ import annotations

import gettext
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.utils import translation
from django.utils.translation import gettext as _

from tests.translations import LOCALE, languages, missing, selected

PACKAGE = LOCALE.parent

needs_gettext = pytest.mark.skipif(
    bool(missing()), reason="gettext is not installed; make test lists it"
)


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalogues, with the texts of today's code."""
    copy = tmp_path_factory.mktemp("extracted") / "django_qless"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    options = [word for name in languages() for word in ("-l", name)]
    subprocess.run(
        [sys.executable, "-m", "django", "makemessages", *options, "--no-location"],
        cwd=copy,
        check=True,
        capture_output=True,
    )
    return copy / "locale"


@needs_gettext
@pytest.mark.parametrize("language", languages())
def test_each_text_is_translated(extracted: Path, language: str) -> None:
    catalogue = extracted / language / "LC_MESSAGES" / "django.po"
    assert selected(catalogue, "--untranslated") == []
    assert selected(catalogue, "--only-fuzzy") == []
    # Texts that the code does not have any more.
    assert selected(catalogue, "--only-obsolete") == []


@needs_gettext
@pytest.mark.parametrize("language", languages())
def test_it_is_compiled(tmp_path: Path, language: str) -> None:
    """Placeholders and plural forms are right, too: that is what --check looks at."""
    folder = LOCALE / language / "LC_MESSAGES"
    compiled = tmp_path / "django.mo"
    command = ["msgfmt", "--check", "-o", str(compiled), str(folder / "django.po")]
    subprocess.run(command, check=True)
    assert texts(compiled) == texts(folder / "django.mo")


def texts(compiled: Path) -> dict[object, str]:
    """Return the texts of a compiled catalogue."""
    with compiled.open("rb") as file:
        return gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(("language", "said"), [("de", "Ausführen"), ("fr", "Lancer")])
def test_it_is_used(language: str, said: str) -> None:
    with translation.override(language):
        assert _("Run now") == said
