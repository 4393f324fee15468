"""An app whose jobs the worker of the tests runs."""

from __future__ import annotations
