"""Mutants of the Python package."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants import seen
from tests.mutants.mutant import IN_DJANGO, Mutant, Statement

if TYPE_CHECKING:
    import redis

COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.Mod: "*",
}
KIN = {"min": "max", "max": "min", "any": "all", "all": "any", "first": "last"}
#: States and the like: words in whose place another one could stand.
WORDS = {
    "waiting": "scheduled",
    "scheduled": "waiting",
    "running": "stalled",
    "stalled": "running",
    "complete": "failed",
    "failed": "complete",
    "depends": "waiting",
    "canceled": "failed",
}

#: Small numbers are mistaken by one, large ones by a digit.
SMALL = 10

#: Texts for people may change: exceptions' messages, log lines, what commands say.
MESSAGES = re.compile(
    r"[A-Z]\w*|log_(event|defect|job_event)|say|warn|warning|debug|info|error|exception|_"
)

#: Tests of one idea that every room has to know: several namespaces.
ROUTING = "tests/routing"

#: Which tests are to notice a change, by the beginning of a module's path.
ROOMS = (
    ("django_qless/core/", ("tests/core",)),
    ("django_qless/worker/", ("tests/worker",)),
    ("django_qless/tasks/", ("tests/tasks",)),
    ("django_qless/testing/", ("tests/testing",)),
    ("django_qless/admin/", ("tests/admin",)),
    ("django_qless/templatetags/", ("tests/admin",)),
    (
        "django_qless/management/",
        ("tests/management", "tests/worker", "tests/monitoring"),
    ),
    ("django_qless/monitoring/", ("tests/monitoring", "tests/management")),
    ("django_qless/health.py", ("tests/test_health.py",)),
)
OTHERS = (*IN_DJANGO, "tests/outbox", "tests/worker")

#: Statements are recorded by a call before them.
IMPORT = b"from tests.mutants.seen import see as _see\n"
#: A program that runs without the package, and so without what records.
LONE = "django_qless/servers/embedded_watcher.py"


class Source:
    """A module's text and syntax tree, by bytes."""

    def __init__(self, source: bytes) -> None:
        self.text = source
        self.tree = ast.parse(source)
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.parents = {
            child: node
            for node in ast.walk(self.tree)
            for child in ast.iter_child_nodes(node)
        }

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return where a node begins."""
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return where a node ends."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        """Return a node's text."""
        return self.text[self.start(node) : self.end(node)].decode()

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Return the nodes that a node is in, the nearest first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def is_left_out(self, node: ast.AST) -> bool:
        """Return whether no test needs to notice a change of this node."""
        below = node
        for parent in self.above(node):
            if isinstance(parent, ast.If) and "TYPE_CHECKING" in ast.unparse(
                parent.test
            ):
                return True
            if isinstance(parent, ast.Call) and below is not parent.func:
                name = ast.unparse(parent.func).rpartition(".")[2]
                if isinstance(
                    node, ast.Constant | ast.JoinedStr
                ) and MESSAGES.fullmatch(name):
                    return True
            if (
                isinstance(parent, ast.arg | ast.AnnAssign)
                and below is parent.annotation
            ):
                return True
            if isinstance(parent, ast.ClassDef) and below in parent.decorator_list:
                return True
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                if below is parent.returns or below in parent.decorator_list:
                    return True
                if parent.name in ("__repr__", "__init_subclass__"):
                    return True
            if isinstance(parent, ast.JoinedStr):
                return True
            below = parent
        return False

    def is_in_function(self, node: ast.AST) -> bool:
        """Return whether a node is inside a function."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return any(isinstance(parent, kinds) for parent in self.above(node))


Change = tuple[str, int, int, str]


class Changes:
    """What each node of a module may become: kind, start, end, text."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def of(self, node: ast.AST) -> Iterator[Change]:
        """Return the changes of one node."""
        method = getattr(self, f"of_{type(node).__name__.lower()}", None)
        if method is not None and not self.source.is_left_out(node):
            yield from method(node)

    def whole(self, kind: str, node: ast.expr | ast.stmt, text: str) -> Change:
        """Return a change of a whole node."""
        return kind, self.source.start(node), self.source.end(node), text

    def between(
        self, kind: str, left: ast.expr, right: ast.expr, word: str
    ) -> Iterator[Change]:
        """Return a change of the operator between two operands."""
        start, end = self.source.end(left), self.source.start(right)
        gap = self.source.text[start:end].decode()
        found = re.fullmatch(r"([\s)]*)([^\s()]+(?:\s+(?:not|in))?)([\s(]*)", gap)
        if found:
            yield kind, start, end, f"{found[1]}{word}{found[3]}"

    def of_compare(self, node: ast.Compare) -> Iterator[Change]:
        """Comparisons."""
        operands = [node.left, *node.comparators]
        for left, sign, right in zip(
            operands, node.ops, node.comparators, strict=False
        ):
            for other in COMPARISONS.get(type(sign), ()):
                yield from self.between("comparison", left, right, other)

    def of_boolop(self, node: ast.BoolOp) -> Iterator[Change]:
        """`and`, `or`, and their operands."""
        other = "or" if isinstance(node.op, ast.And) else "and"
        if len(node.values) == 2:
            yield from self.between("and, or", *node.values, other)
        for value in node.values[:2]:
            yield self.whole("operand dropped", node, f"({self.source.of(value)})")

    def of_unaryop(self, node: ast.UnaryOp) -> Iterator[Change]:
        """`not` and the minus."""
        if isinstance(node.op, ast.Not | ast.USub):
            yield self.whole("sign dropped", node, f"({self.source.of(node.operand)})")

    def of_binop(self, node: ast.BinOp) -> Iterator[Change]:
        """Arithmetic."""
        is_text = any(
            isinstance(each, ast.JoinedStr)
            or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
            for each in (node.left, node.right)
        )
        if type(node.op) in ARITHMETIC and not is_text:
            word = ARITHMETIC[type(node.op)]
            yield from self.between("arithmetic", node.left, node.right, word)

    def of_constant(self, node: ast.Constant) -> Iterator[Change]:
        """Numbers, True, False, and words that have kin."""
        value = node.value
        if isinstance(value, bool):
            yield self.whole("boolean", node, str(not value))
        elif isinstance(value, int | float) and value > SMALL:
            yield self.whole("constant", node, "0")
            yield self.whole("constant", node, repr(value * 10))
        elif isinstance(value, int | float):
            yield self.whole("constant", node, repr(value + 1))
            if value:
                yield self.whole("constant", node, repr(value - 1))
        elif isinstance(value, str) and value in WORDS:
            yield self.whole("kin", node, f'"{WORDS[value]}"')

    def of_name(self, node: ast.Name) -> Iterator[Change]:
        """Functions that have kin."""
        parent = self.source.parents.get(node)
        if node.id in KIN and isinstance(parent, ast.Call) and parent.func is node:
            yield self.whole("kin", node, KIN[node.id])

    def of_call(self, node: ast.Call) -> Iterator[Change]:
        """Arguments by name that are forgotten."""
        if MESSAGES.fullmatch(ast.unparse(node.func).rpartition(".")[2]):
            return
        for keyword in node.keywords:
            if keyword.arg:
                start, end = self.source.start(keyword), self.source.end(keyword)
                comma = re.match(rb"\s*,", self.source.text[end:])
                yield "argument dropped", start, end + (comma.end() if comma else 0), ""

    def condition(self, test: ast.expr) -> Iterator[Change]:
        """Return a condition that always or never holds."""
        for word in ("True", "False"):
            yield self.whole("condition", test, word)

    def of_if(self, node: ast.If) -> Iterator[Change]:
        """Conditions of statements."""
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from self.condition(node.test)

    def of_ifexp(self, node: ast.IfExp) -> Iterator[Change]:
        """Conditions of expressions."""
        yield from self.condition(node.test)

    def of_while(self, node: ast.While) -> Iterator[Change]:
        """Loops that are not entered."""
        yield self.whole("condition", node.test, "False")

    def of_comprehension(self, node: ast.comprehension) -> Iterator[Change]:
        """Filters that let everything through."""
        for test in node.ifs:
            yield self.whole("condition", test, "True")

    def of_return(self, node: ast.Return) -> Iterator[Change]:
        """Results that are forgotten."""
        if node.value is not None and ast.unparse(node.value) != "None":
            yield self.whole("return", node, "return None")

    def dropped(self, node: ast.stmt) -> Iterator[Change]:
        """Return a statement's absence."""
        if self.source.is_in_function(node):
            yield self.whole("statement dropped", node, "pass")

    def of_expr(self, node: ast.Expr) -> Iterator[Change]:
        """Calls that are forgotten, unless they only say something."""
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func).rpartition(".")[2]
            if not MESSAGES.fullmatch(name):
                yield from self.dropped(node)

    of_assign = of_augassign = of_delete = of_raise = of_break = of_continue = dropped


class Python:
    """The modules of the package."""

    name = "python"
    share = 3 / 20
    # All tests that reach a line of the worker take a quarter of an hour.
    patience = 180.0
    suites: Sequence[str] = (
        "tests/core",
        *OTHERS,
        "tests/tasks",
        "tests/testing",
        "tests/admin",
        "tests/monitoring",
        "tests/test_health.py",
        ROUTING,
    )

    def rooms(self, module: str) -> Sequence[str]:
        """Return the folders of the tests that are to notice a change of a module."""
        for prefix, folders in ROOMS:
            if module.startswith(prefix):
                return (*folders, ROUTING)
        return (*OTHERS, ROUTING)

    def modules(self, root: Path) -> list[str]:
        """Return the paths of the modules, from the root on, sorted."""
        found = (root / "django_qless").rglob("*.py")
        return sorted(
            str(path.relative_to(root))
            for path in found
            if "migrations" not in str(path)
        )

    def places(self, module: str, source: bytes) -> list[list[Mutant]]:
        """Return the changes of a module that make sense, by the place they change."""
        read = Source(source)
        changes = Changes(read)
        found = []
        for node in ast.walk(read.tree):
            place = [
                Mutant(module, start, end, text.encode(), kind)
                for kind, start, end, text in changes.of(node)
            ]
            if place:
                found.append(place)
        return sorted(found, key=lambda place: (place[0].start, place[0].end))

    def compiles(self, source: bytes) -> bool:
        """Return whether a module is valid Python."""
        try:
            compile(source, "module", "exec", dont_inherit=True)
        except SyntaxError:
            return False
        return True

    def statements(self, source: bytes, first: int) -> list[Statement]:
        """Return the statements inside functions, numbered from `first` on."""
        read = Source(source)
        found = [
            node
            for node in ast.walk(read.tree)
            if isinstance(node, ast.stmt)
            and read.is_in_function(node)
            and self._begins_line(read, node)
        ]
        found.sort(key=read.start)
        return [
            Statement(number, read.start(node), read.end(node))
            for number, node in enumerate(found, first)
        ]

    def _begins_line(self, read: Source, node: ast.stmt) -> bool:
        """Return whether a call may be put on a line before a statement."""
        start = read.start(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return False  # A docstring is one as long as it comes first.
        is_elif = read.text[start:].startswith(b"elif")
        decorated = getattr(node, "decorator_list", ())
        return (
            not is_elif and not decorated and not indentation(read.text, start).strip()
        )

    def watch(self, root: Path, statements: dict[str, list[Statement]]) -> None:
        """Change a copy of the tree so that each statement executed is recorded."""
        for module, all_of_it in statements.items():
            if module == LONE:
                continue
            path = root / module
            source = path.read_bytes()
            for each in reversed(all_of_it):
                indent = indentation(source, each.start)
                call = b"_see(%d)\n%b" % (each.number, indent)
                source = source[: each.start] + call + source[each.start :]
            if all_of_it:
                at = after_future(source)
                source = source[:at] + IMPORT + source[at:]
            path.write_bytes(source)

    def begin(self) -> None:
        """Get ready to record what tests execute in this process and its children."""
        folder = Path(tempfile.mkdtemp(prefix="seen-"))
        seen.begin(folder / "numbers")

    def executed(self) -> Iterable[int]:
        """Return the numbers recorded since the last time."""
        return seen.taken()

    def reached(self, server: redis.Redis) -> Iterable[int]:
        """Return nothing: no Python runs on a server."""
        return ()

    def build(self, root: Path) -> None:
        """Do nothing: no file is generated from these modules."""

    def wanted(self, nodeid: str) -> bool:
        """Return whether a test is worth its time: a browser takes too much."""
        return "/browser/" not in nodeid and not re.search(r"[\[-]script\b", nodeid)


def indentation(source: bytes, at: int) -> bytes:
    """Return what stands before a place in its line."""
    return source[source.rfind(b"\n", 0, at) + 1 : at]


def after_future(source: bytes) -> int:
    """Return where imports may begin: behind the docstring and `from __future__`."""
    read = Source(source)
    at = 0
    for node in read.tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not (is_text or is_future):
            break
        at = read.end(node) + 1
    return at
