"""The languages whose modules can be changed."""

from __future__ import annotations

from tests.mutants.lua import Lua
from tests.mutants.mutant import Language
from tests.mutants.python import Python

LANGUAGES: dict[str, Language] = {"lua": Lua(), "python": Python()}
