#!/usr/bin/env python3
"""Join the Lua modules of this folder into django_qless/core/qless.lua.

    python lua/build.py            writes the file
    python lua/build.py --check    exits 1 if the file is not what lua/ gives

Each file is a module: a table under the file's name in camel case (core/put_options.lua is
PutOptions), filled by the file when something of it is first wanted. A file uses other modules by
their names, so the order of the files means nothing, and what is local to a file stays private.
main.lua is the way in and comes last.

The same text is a library of functions, whose modules are made once, and a script for old clients,
which makes the modules that its call needs. The result holds no date and no version: it changes
only when a module does.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ARTEFACT = FOLDER.parent / "django_qless" / "core" / "qless.lua"
MAIN = "main"

#: A comment, a text, or the name of a module that something is taken from.
NAMED = re.compile(
    r"--\[\[[\s\S]*?\]\]|--[^\n]*|\[\[[\s\S]*?\]\]|'(?:\\.|[^'\n\\])*'|\"(?:\\.|[^\"\n\\])*\""
    r"|(?<![.\w:])([A-Z]\w*)(?=\.\w)"
)

HEAD = """\
-- Generated from lua/ by lua/build.py: change it there.
local function build()
-- A module is an empty table until something of it is wanted; then its file fills it.
local make
local unmade = {}
unmade.__index = function(module, field)
  setmetatable(module, nil)
  make(module[1])(module)
  return module[field]
end
local modules = setmetatable({}, {
  __index = function(modules, name)
    local module = setmetatable({ name }, unmade)
    modules[name] = module
    return module
  end,
})
"""


class BuildError(Exception):
    """The files of this folder cannot be joined."""


def build(folder: Path = FOLDER) -> str:
    """Return the text of the artefact that a folder gives. Raises BuildError."""
    files = {path.stem: path for path in sorted(folder.rglob("*.lua"))}
    if MAIN not in files:
        raise BuildError(f"not in {folder.name}/: {MAIN}")
    if len(files) < len(list(folder.rglob("*.lua"))):
        raise BuildError("two files of lua/ have the same name")
    main = files.pop(MAIN)
    tables = {table(path) for path in files.values()}
    functions = {table(path): module(path, tables) for path in files.values()}
    parts = [
        HEAD,
        "make = function(module_name)\nlocal initial = string.byte(module_name)\n",
    ]
    parts.append(choice(functions, sorted({ord(name[0]) for name in functions})))
    parts.append(
        "error('no module ' .. tostring(module_name))\nend\nreturn modules\nend\n\n"
    )
    parts.append(section(main))
    return "".join(parts)


def choice(functions: dict[str, str], letters: list[int]) -> str:
    """Return the statement that finds a module's function by halves, by its first letter."""
    if len(letters) > 1:
        half = len(letters) // 2
        lower, upper = letters[:half], letters[half:]
        return (
            f"if initial < {upper[0]} then\n{choice(functions, lower)}"
            f"else\n{choice(functions, upper)}end\n"
        )
    return "".join(
        f"if module_name == '{name}' then\n{text}end\n"
        for name, text in functions.items()
        if ord(name[0]) == letters[0]
    )


def table(path: Path) -> str:
    """Return the name of a module's table."""
    return "".join(word.capitalize() for word in path.stem.split("_"))


def module(path: Path, tables: set[str]) -> str:
    """Return the function that fills a module's table."""
    source, own = section(path), table(path)
    if not re.search(rf"^(function )?{own}\.", source, re.MULTILINE):
        raise BuildError(f"{path.name} adds nothing to {own}")
    used = sorted({name for name in NAMED.findall(source) if name in tables} - {own})
    locals_ = ""
    if used:
        left = textwrap.fill(", ".join(used), 100)
        right = textwrap.fill(", ".join(f"modules.{name}" for name in used), 100)
        locals_ = f"local {left} =\n{right}\n"
    return f"return function({own})\n{locals_}{source}end\n"


def section(path: Path) -> str:
    """Return one file as it stands in the artefact."""
    source = path.read_text(encoding="utf-8").rstrip() + "\n"
    return f"-- {path.parent.name}/{path.name}\n{source}"


def main() -> int:
    """Write or check the artefact; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit 1 if the file is not up to date",
    )
    options = parser.parse_args()
    try:
        text = build()
    except BuildError as error:
        print(f"lua/build.py: {error}", file=sys.stderr)
        return 1
    current = ARTEFACT.read_text(encoding="utf-8") if ARTEFACT.exists() else None
    if current == text:
        return 0
    if options.check:
        print(
            "django_qless/core/qless.lua is not what lua/ gives: run python lua/build.py",
            file=sys.stderr,
        )
        return 1
    ARTEFACT.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
