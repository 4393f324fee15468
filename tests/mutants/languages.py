"""The languages whose modules can be changed."""

from __future__ import annotations

from tests.mutants.lua import Lua

LANGUAGES = {"lua": Lua()}
