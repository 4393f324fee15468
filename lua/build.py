#!/usr/bin/env python3
"""Joins the Lua modules of this folder into django_qless/core/qless.lua.

    python lua/build.py            writes the file
    python lua/build.py --check    exits 1 if the file is not what lua/ gives

head.lua comes first and main.lua last. Each of the others becomes a module: a table under the
file's name in camel case (put_options.lua is PutOptions), and a function of the file that fills
it when it is first wanted. A file uses other modules by their names, without further ado: what
it names is declared for it. So the order of the files means nothing, and what is local to one
stays private.

The result holds no date, no version and no hash: it changes only when a module does.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ARTEFACT = FOLDER.parent / "django_qless" / "core" / "qless.lua"

FIRST, LAST = "head", "main"

FIRST_LINE = "-- Generated from lua/ by lua/build.py: change it there.\n"


class BuildError(Exception):
    """The files of this folder cannot be joined."""


def build() -> str:
    """Return the text of the artefact. Raises BuildError."""
    found = sorted(path.stem for path in FOLDER.glob("*.lua"))
    missing = {FIRST, LAST}.difference(found)
    if missing:
        raise BuildError(f"not in lua/: {', '.join(sorted(missing))}")
    names = [name for name in found if name not in (FIRST, LAST)]
    tables = {table(name) for name in names}
    modules = "".join(module(name, tables) for name in names)
    ending = "\nreturn modules.Serve.serve\nend\n\n"
    body = f"local function build()\n{section(FIRST)}{modules}{ending}"
    return FIRST_LINE + body + section(LAST)


def table(name: str) -> str:
    """Return the name of a module's table."""
    return "".join(word.capitalize() for word in name.split("_"))


def module(name: str, tables: set[str]) -> str:
    """Return the function that fills a module's table, of all these modules."""
    source, own = section(name), table(name)
    if not re.search(rf"^(function )?{own}\.", source, re.MULTILINE):
        raise BuildError(f"lua/{name}.lua adds nothing to {own}")
    code = re.sub(r"--.*|'[^'\n]*'", "", source)
    used = {own} | tables.intersection(re.findall(r"\b([A-Z]\w*)\.\w", code))
    header = "".join(f"local {each} = modules.{each}\n" for each in sorted(used))
    return f"\nfunction builders.{own}()\n{header}{source}end\n"


def section(name: str) -> str:
    """Return one file as it stands in the artefact."""
    source = (FOLDER / f"{name}.lua").read_text(encoding="utf-8").rstrip() + "\n"
    return f"-- {name}.lua\n{source}"


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
