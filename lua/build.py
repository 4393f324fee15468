#!/usr/bin/env python3
"""Joins the Lua modules of this folder into django_qless/core/qless.lua.

    python lua/build.py            writes the file
    python lua/build.py --check    exits 1 if the file is not what lua/ gives

head.lua comes first and main.lua last. Each of the others becomes a module: a table under the
file's name in camel case (put_options.lua is PutOptions), and a function of the file that makes
it when it is first wanted. A file uses other modules by their names, without further ado: where
it names Job.get, modules.Job.get is built. So the order of the files means nothing, and what is
local to one stays private.

A script makes all that it runs anew in each call, so what is built for it is sparing. The function
that makes a module is itself made only when the module is wanted: `maker_of` asks for one name
after the other, first for those that most files use. And a module's table has room for its
fields from the start, as one that grows is copied again and again.

The result holds no date, no version and no hash: it changes only when a module does.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ARTEFACT = FOLDER.parent / "django_qless" / "core" / "qless.lua"

FIRST, LAST = "head", "main"

# A comment, a text, or a name that something is taken from.
NAMED = r"--.*|\[\[[\s\S]*?\]\]|'[^'\n]*'|\"[^\"\n]*\"|(?<![.\w])[A-Z]\w*(?=\.\w)"

FIRST_LINE = "-- Generated from lua/ by lua/build.py: change it there.\n"


class BuildError(Exception):
    """The files of this folder cannot be joined."""


def build() -> str:
    """Return the text of the artefact. Raises BuildError."""
    files = sorted(FOLDER.rglob("*.lua"))
    known = {path.stem: path for path in files}
    missing = {FIRST, LAST}.difference(known)
    if missing:
        raise BuildError(f"not in lua/: {', '.join(sorted(missing))}")
    if len(known) < len(files):
        raise BuildError("two files of lua/ have the same name")
    modules = [path for path in files if path.stem not in (FIRST, LAST)]
    return (
        f"{FIRST_LINE}local function build(without_keys)\n{section(known[FIRST])}"
        f"\n{makers(modules)}\nreturn "
        f"without_keys and modules.Legacy.serve or modules.Serve.serve\nend\n\n"
        f"{section(known[LAST])}"
    )


def makers(paths: list[Path]) -> str:
    """Return the function that tells which function makes a module."""
    tables = {table(path) for path in paths}
    sources = {path: module(path, tables) for path in paths}
    uses = Counter(
        name
        for source in sources.values()
        for name in set(re.findall(r"\bmodules\.(\w+)\.", source))
    )
    word, lines = "if", ["function maker_of(module_name)\n"]
    for path in sorted(paths, key=lambda path: (-uses[table(path)], table(path))):
        lines.append(f"{word} module_name == '{table(path)}' then\n{sources[path]}")
        word = "elseif"
    return "".join([*lines, "end\nend\n"])


def table(path: Path) -> str:
    """Return the name of a module's table."""
    return "".join(word.capitalize() for word in path.stem.split("_"))


def module(path: Path, tables: set[str]) -> str:
    """Return the function that makes a module's table, of all these modules."""
    source, own = section(path), table(path)
    if not re.search(rf"^(function )?{own}\.", source, re.MULTILINE):
        raise BuildError(f"{path.name} adds nothing to {own}")
    others = tables - {own}

    def reached(found: re.Match[str]) -> str:
        return f"modules.{found[0]}" if found[0] in others else found[0]

    code = re.sub(NAMED, reached, source)
    fields = re.findall(rf"^(?:function )?{own}\.(\w+)", code, re.MULTILINE)
    room = textwrap.fill(
        ", ".join(f"{field} = 0" for field in dict.fromkeys(fields)), 100
    )
    head = f"local {own} = {{\n{room}\n}}\nmodules.{own} = {own}\n"
    return f"return function()\n{head}{code}end\n"


def section(path: Path) -> str:
    """Return one file as it stands in the artefact."""
    source = path.read_text(encoding="utf-8").rstrip() + "\n"
    return f"-- {path.relative_to(FOLDER)}\n{source}"


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
