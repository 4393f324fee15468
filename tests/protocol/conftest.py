"""Fixtures of the protocol's suite: those of the core's suite."""

from __future__ import annotations

from tests.core.conftest import core as core
from tests.core.conftest import keyed as keyed
from tests.core.conftest import library as library
from tests.core.conftest import (
    pytest_collection_modifyitems as pytest_collection_modifyitems,
)
