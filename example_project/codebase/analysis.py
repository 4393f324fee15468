"""Measures one Python source file. Knows nothing of Django, models or jobs."""

from __future__ import annotations

import ast
import tokenize
import warnings
from dataclasses import dataclass
from pathlib import Path

MODULE_BODY = "<module>"
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCH = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler)


@dataclass(frozen=True)
class Figures:
    """Figures of one file; the fields are those of the model `Module`."""

    lines: int
    blank_lines: int
    comment_lines: int
    functions: int
    classes: int
    complexity: int
    hardest: str
    hardest_complexity: int


@dataclass
class Scope:
    """A function, or the module's own body, and its cyclomatic complexity so far."""

    name: str
    complexity: int = 1


def measure_file(path: Path) -> Figures:
    """Reads the file in the encoding that it declares and measures its text.

    Raises OSError when it cannot be read, UnicodeDecodeError when its bytes do not fit
    the encoding, SyntaxError (some versions: ValueError) when it is not Python.
    """
    with tokenize.open(path) as file:
        return measure_source(file.read())


def measure_source(source: str) -> Figures:
    """Counts lines, functions and classes, and the complexity of `source`."""
    survey = Survey(parse(source))
    lines = source.removesuffix("\n").split("\n") if source else []
    own = [
        line.strip()
        for number, line in enumerate(lines, start=1)
        if number not in survey.lines_inside_strings
    ]
    hardest = max(survey.scopes, key=lambda scope: scope.complexity)
    return Figures(
        lines=len(lines),
        blank_lines=own.count(""),
        comment_lines=sum(line.startswith("#") for line in own),
        functions=len(survey.scopes) - 1,
        classes=survey.classes,
        complexity=sum(scope.complexity for scope in survey.scopes),
        hardest=hardest.name,
        hardest_complexity=hardest.complexity,
    )


def parse(source: str) -> ast.Module:
    """Parses without showing what the compiler thinks of other people's escapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


class Survey:
    """One walk over a module: its scopes, classes, and the lines inside its strings.

    The complexity of a scope is cyclomatic, by the rule of T. J. McCabe, "A Complexity
    Measure", IEEE Transactions on Software Engineering SE-2 (4), 1976: the number of
    decisions plus one, each condition of a compound predicate being a decision.

    A decision is an `if`, `elif` or conditional expression; a loop, also one in a
    comprehension, and each of its `if`s; an `except`; a `case` that can fail to match,
    and its guard; each further operand of `and` and `or`. A nested function counts for
    itself; a lambda and a class's own statements count for what surrounds them.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.scopes = [Scope(MODULE_BODY)]
        self.classes = 0
        self.lines_inside_strings: set[int] = set()
        self._walk(tree)

    def _walk(self, tree: ast.Module) -> None:
        # A list instead of recursion: how deep the code nests is not up to us.
        pending: list[tuple[ast.AST, Scope, str]] = [(tree, self.scopes[0], "")]
        while pending:
            node, scope, prefix = pending.pop()
            if isinstance(node, FUNCTION):
                scope = Scope(prefix + node.name)
                self.scopes.append(scope)
                prefix = f"{scope.name}."
            elif isinstance(node, ast.ClassDef):
                self.classes += 1
                prefix = f"{prefix}{node.name}."
            elif isinstance(node, (ast.Constant, ast.JoinedStr)):
                self._note_text(node)
            else:
                scope.complexity += decisions(node)
            pending.extend(
                (child, scope, prefix) for child in ast.iter_child_nodes(node)
            )

    def _note_text(self, node: ast.Constant | ast.JoinedStr) -> None:
        """Remembers the lines that a string over several lines goes on in.

        What looks like a comment or a blank line there is text. Strings that stand one
        after the other are one string to the parser, and so they are here.
        """
        if node.end_lineno is not None and node.end_lineno > node.lineno:
            self.lines_inside_strings.update(
                range(node.lineno + 1, node.end_lineno + 1)
            )


def decisions(node: ast.AST) -> int:
    """Returns the number of decisions of this node, without its children."""
    if isinstance(node, BRANCH):
        return 1
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.match_case):
        return int(not _always_matches(node.pattern)) + int(node.guard is not None)
    return 0


def _always_matches(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None
