"""Measures Python source code with jobs, and reports on the code and the jobs.

    python demo.py             the running Python's standard library
    python demo.py SOURCE      the Python files below a directory

Needs nothing but django_qless with its extra `embedded`: the database is SQLite, and the
jobs are in a private Valkey. It can be run again and again.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import django

from codebase.finding import python_files, standard_library


def main() -> int:
    """Runs the demonstration and returns the exit code."""
    source = chosen_source()
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    django.setup()

    # What knows the models can be imported only now.
    from demonstration.steps import DemoFailed, demonstrate
    from django_qless import QlessError

    try:
        print(demonstrate(source))
    except (DemoFailed, QlessError) as error:
        print(f"The demo cannot go on: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The jobs are kept: run it again.", file=sys.stderr)
        return 130
    return 0


def chosen_source() -> Path:
    """Returns the directory of the arguments; exits with 2 if it cannot be used."""
    parser = argparse.ArgumentParser(
        prog="demo.py",
        description="Measures Python source code, one job for each file.",
    )
    parser.add_argument(
        "source",
        nargs="?",
        default="",
        metavar="SOURCE",
        help="a directory of Python files (default: Python's standard library)",
    )
    given = parser.parse_args().source
    source = Path(given).expanduser().resolve() if given else standard_library()
    if not source.is_dir():
        what = "a file" if source.exists() else "nothing"
        parser.error(f"SOURCE must be a directory, and {source} is {what}")
    if next(python_files(source), None) is None:
        parser.error(f"there are no Python files below {source}")
    return source


if __name__ == "__main__":
    sys.exit(main())
