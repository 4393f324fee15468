"""Writes the README's Python into build/readme, with annotations, for mypy to check.

Functions get annotated parameters and results, for mypy looks into no others, and what
belongs into a shell becomes a function. `Any` stands for all types: what is checked is
what the package itself has.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

from tests.docs.pages import ROOT, Block, read

FOLDER = ROOT / "build" / "readme"
HEAD = "from __future__ import annotations\nfrom typing import Any, ClassVar\n"
OBJECTS = "objects: ClassVar[models.Manager[Any]] = models.Manager()"


class Annotated(ast.NodeTransformer):
    """Gives functions annotations, where they have none."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        if "models.Model" in map(ast.unparse, node.bases):
            # django-stubs gives it to the models of installed apps.
            node.body[:0] = ast.parse(OBJECTS).body
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        parameters = [*node.args.args, *node.args.kwonlyargs, node.args.vararg]
        for each in parameters:
            if each is not None and each.arg not in ("self", "cls"):
                each.annotation = each.annotation or ast.Name("Any")
        node.returns = node.returns or ast.Name("Any")
        self.generic_visit(node)
        return node


def in_function(block: Block) -> str:
    """Return the code of a block as that of a function."""
    lines = [f"    {line}" for line in block.code.splitlines()]
    return "\n".join([f"def line_{block.line}() -> None:", *lines, ""])


def main() -> None:
    """Write the files, and nothing else into their folder."""
    files: dict[str, str] = {}
    for block in read(ROOT / "README.md").blocks:
        if block.language == "python" and block.file != "settings.py":
            name, code = block.file or "shell.py", block.code
            code = code if block.file else in_function(block)
            files[name] = files.get(name, HEAD) + code
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, code in files.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent != FOLDER:
            Path(path.parent, "__init__.py").touch()
        path.write_text(ast.unparse(Annotated().visit(ast.parse(code))))


if __name__ == "__main__":
    main()
