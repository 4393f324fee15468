"""Source locations: the module of a function, and `shop/models.py:12` for messages."""

from __future__ import annotations

import ast
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django_qless.exceptions import InvalidJob, InvalidOption


def module_of(function: Any) -> str:
    """Return the module of a function, also of one that runs as `python -m module`."""
    module: str = getattr(function, "__module__", None) or "?"
    if module == "__main__":
        spec = getattr(sys.modules.get(module), "__spec__", None)
        return spec.name if spec else module
    return module


def location_of(thing: Any) -> str:
    """Return the file and line of a function or class, "" if it has none.

    The file is relative to the current directory if it lies below. A decorated
    function begins at its first decorator.
    """
    for wrapper in ("__func__", "fget", "func"):
        # A method, a class or static method; a property; a partial.
        thing = getattr(thing, wrapper, None) or thing
    thing = inspect.unwrap(thing)
    code = getattr(thing, "__code__", None)
    if code is not None:
        return f"{_short(code.co_filename)}:{code.co_firstlineno}"
    if not inspect.isclass(thing):
        return ""
    try:
        file = inspect.getsourcefile(thing)
        line = inspect.findsource(thing)[1] + 1
    except (OSError, TypeError):
        return ""
    return f"{_short(file)}:{line}" if file else ""


def both_in_source(one: Any, other: Any) -> bool:
    """Return whether two functions of one name are both in the source.

    Otherwise one of them comes from an earlier state of the source, loaded again.
    """
    first, second = (
        getattr(inspect.unwrap(each), "__code__", None) for each in (one, other)
    )
    if first is None or second is None or first.co_filename != second.co_filename:
        return False
    lines = {first.co_firstlineno, second.co_firstlineno}
    if len(lines) == 1:
        return False
    try:
        source = Path(first.co_filename).read_bytes()
        written = {
            min([node.lineno, *(each.lineno for each in node.decorator_list)])
            for node in ast.walk(ast.parse(source))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.name == first.co_name
        }
    except (OSError, SyntaxError, ValueError):
        return False
    return lines <= written


def at(thing: Any) -> str:
    """Return ` (shop/models.py:12)`, to follow the name of a thing, or ""."""
    place = location_of(thing)
    return f" ({place})" if place else ""


@contextmanager
def locate_errors(thing: Any, *, enqueues: bool = False) -> Iterator[None]:
    """Prefix InvalidJob and InvalidOption raised in this block with a source location.

    Blocks may be nested: the innermost location is given, once. `enqueues` says whether
    the block is part of a call that enqueues; else it declares something.
    """
    try:
        yield
    except (InvalidJob, InvalidOption) as error:
        place = location_of(thing)
        if place and not hasattr(error, "place"):
            error.place = place  # type: ignore[union-attr]
            error.detail = f"{place}: {error.detail}"
            error.args = (error.detail,)
        if isinstance(error, InvalidOption) and not enqueues:
            error.enqueues = False
        raise


def _short(file: str) -> str:
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith(os.pardir) else relative
