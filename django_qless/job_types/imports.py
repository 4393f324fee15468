"""Import graph: which module imports another, as Python does it and as the source says."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from types import FrameType, ModuleType

#: Stands for Django's start-up, which imports apps, models, and what `ready()` imports.
DJANGO_START = "django.apps.registry"

_INSTALLED = {"site-packages", "dist-packages"}
_STDLIB = os.path.dirname(os.__file__)


def running_imports() -> frozenset[str]:
    """Return the modules that this thread is importing, one on behalf of another.

    While Django starts, DJANGO_START is one of them.
    """
    names = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name, code = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if code == "<module>" or (name, code) == (DJANGO_START, "populate"):
            names.add(name)
        frame = frame.f_back
    return frozenset(names)


def reaches(modules: Iterable[str], target: str) -> bool:
    """Return whether who imports these modules imports `target`, also through others.

    All of them are loaded by now. Installed packages are not searched, but for that of
    the target.
    """
    found: set[str] = set()
    todo = list(modules)
    while todo:
        name = todo.pop()
        loaded = sys.modules.get(name)
        if name in found or loaded is None:
            continue
        if name == target:
            return True
        found.add(name)
        todo.append(name.rpartition(".")[0])
        if _package(name) == _package(target) or not _is_installed(loaded):
            todo += _imported_by(name)
    return False


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_installed(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None) or _STDLIB
    return file.startswith(_STDLIB) or not _INSTALLED.isdisjoint(Path(file).parts)


@cache
def _imported_by(name: str) -> frozenset[str]:
    """Return the modules that a loaded module imports, among names of other things."""
    module = sys.modules[name]
    try:
        source = module.__spec__.loader.get_source(name)  # type: ignore[union-attr]
        tree = None if source is None else ast.parse(source)
    except (AttributeError, ImportError, OSError, SyntaxError, ValueError):
        tree = None
    if tree is not None:
        return frozenset(_imports(tree, module.__package__ or ""))
    # Compiled: what it has of others shows most of them.
    return frozenset(
        value.__name__
        if isinstance(value, ModuleType)
        else str(getattr(value, "__module__", ""))
        for value in list(vars(module).values())
    )


def _imports(node: ast.AST, package: str) -> Iterator[str]:
    """Yield what code imports when it runs, but not when functions in it are called."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        relative = "." * node.level + (node.module or "")
        home = resolve_name(relative, package) if node.level else relative
        yield home
        yield from (f"{home}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value  # import_module("shop.services")
    elif isinstance(node, ast.If) and _is_for_types(node.test):
        for each in node.orelse:
            yield from _imports(each, package)
    elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        for child in ast.iter_child_nodes(node):
            yield from _imports(child, package)


def _is_for_types(test: ast.expr) -> bool:
    name = getattr(test, "attr", getattr(test, "id", ""))
    return name == "TYPE_CHECKING"
