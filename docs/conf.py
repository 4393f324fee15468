"""How Sphinx builds the documentation: `make docs`."""

from __future__ import annotations

from importlib.metadata import version as version_of

project = "django_qless"
version = release = version_of("django-qless")
copyright = "django_qless contributors"  # noqa: A001 (Sphinx's name for it)
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"django_qless {release}"
exclude_patterns = ["deployment/*.md"]
# Links to a heading of another page: guides/worker.md#signals
myst_heading_anchors = 3
# Blocks of code hold ellipses, which Pygments takes for errors, and expected values.
suppress_warnings = ["misc.highlighting_failure"]
