#!/usr/bin/env python3
"""Joins the Lua modules of this folder into django_qless/core/qless.lua.

    python lua/build.py            writes the file
    python lua/build.py --check    exits 1 if the file is not what lua/ gives

MODULES is the order of the file and its table of contents. Each module stands in
`do … end`, so that what is local to a file stays private. The first module declares
`local Qless = {}` for all the others and the last one dispatches: these two stand
at the level of the chunk.

The result holds no date, no version and no hash: it changes only when a module does.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ARTEFACT = FOLDER.parent / "django_qless" / "core" / "qless.lua"

MODULES = [
    "head",
    "texts",
    "absence",
    "errors",
    "json",
    "arguments",
    "record",
    "events",
    "config",
    "sorted_set",
    "clock",
    "replies",
    "kept",
    "wake",
    "journal",
    "minutes",
    "stats",
    "samples",
    "tags",
    "failures",
    "headline",
    "history",
    "place",
    "unique",
    "canceled",
    "needs",
    "circles",
    "spawned",
    "awaiting",
    "workflow",
    "dependencies",
    "links",
    "job",
    "cascade",
    "ended",
    "put_options",
    "store",
    "conflict",
    "put",
    "batch",
    "lock",
    "spawn",
    "expiry",
    "outcome",
    "corrupt",
    "ticks",
    "definition",
    "schedules",
    "recurring",
    "pausing",
    "queue",
    "brief",
    "search",
    "groups",
    "job_view",
    "schedule_view",
    "queue_schedules",
    "skews",
    "cron",
    "revive",
    "each",
    "workflow_put",
    "workflow_verbs",
    "pop",
    "verbs",
    "settle",
    "survey",
    "throughput",
    "orders",
    "worker",
    "worker_view",
    "audit_jobs",
    "audit_links",
    "audit_workflows",
    "audit",
    "permissions",
    "api",
    "extensions",
    "serve",
    "main",
]
AT_CHUNK_LEVEL = {MODULES[0], MODULES[-1]}

FIRST_LINE = "-- Generated from lua/ by lua/build.py: change it there.\n"


class BuildError(Exception):
    """The modules on disk and the list of modules do not agree."""


def build() -> str:
    """Return the text of the artefact. Raises BuildError."""
    found = {path.stem for path in FOLDER.glob("*.lua")}
    missing = [name for name in MODULES if name not in found]
    if missing:
        raise BuildError(f"listed but not in lua/: {', '.join(missing)}")
    unlisted = sorted(found.difference(MODULES))
    if unlisted:
        raise BuildError(f"in lua/ but not listed: {', '.join(unlisted)}")
    modules = "".join(section(name) for name in MODULES[:-1])
    body = f"local function build(){modules}return Qless\nend\n"
    return FIRST_LINE + body + section(MODULES[-1])


def section(name: str) -> str:
    """Return one module as it stands in the artefact."""
    source = (FOLDER / f"{name}.lua").read_text(encoding="utf-8").rstrip() + "\n"
    title = f"\n-- {name}.lua\n"
    if name in AT_CHUNK_LEVEL:
        return title + source
    return f"{title}do\n{source}end\n"


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
