"""Changes of the Lua core that a person could have made by mistake."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.mutants.mutant import IN_DJANGO, Mutant, Statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import redis
    from tree_sitter import Node, Parser

COMPARISONS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("~=",),
    "~=": ("==",),
}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*"}
KIN = {
    # commands and their words
    "ZRANGE": "ZREVRANGE",
    "ZREVRANGE": "ZRANGE",
    "ZRANK": "ZREVRANK",
    "ZREVRANK": "ZRANK",
    "ZREMRANGEBYRANK": "ZREMRANGEBYSCORE",
    "ZREMRANGEBYSCORE": "ZREMRANGEBYRANK",
    "LPUSH": "RPUSH",
    "RPUSH": "LPUSH",
    "LPOP": "RPOP",
    "RPOP": "LPOP",
    "SADD": "SREM",
    "SREM": "SADD",
    "HSETNX": "HSET",
    "SPOP": "SRANDMEMBER",
    "EXPIRE": "PEXPIRE",
    "PEXPIRE": "EXPIRE",
    "NX": "XX",
    "XX": "NX",
    "EX": "PX",
    "PX": "EX",
    "-inf": "+inf",
    "+inf": "-inf",
    # states and places
    "waiting": "scheduled",
    "scheduled": "depends",
    "depends": "waiting",
    "running": "stalled",
    "stalled": "running",
    "complete": "failed",
    "failed": "complete",
    "canceled": "failed",
    "work": "scheduled",
    "locks": "work",
    "recur": "scheduled",
    # numbers in texts
    "0": "1",
    "1": "0",
    "-1": "-2",
}
KEYS = {
    "dependents": "dependencies",
    "dependencies": "dependents",
    "releasing": "cascading",
    "cascading": "releasing",
    "idle_at": "wake_at",
    "wake_at": "idle_at",
    "staged": "staged_jids",
    "spawned": "offspring",
    "offspring": "spawned",
}
FUNCTIONS = {
    "math.min": "math.max",
    "math.max": "math.min",
    "math.floor": "math.ceil",
    "math.ceil": "math.floor",
}
NOTHING = {"nil", "false"}

# What they are given is the text of an error.
ERRORS = re.compile(r"error|Errors\.\w+")

# Small numbers are mistaken by one, large ones by a digit.
SMALL = 10

SEEN = """
local seen = {}
local function see(number)
  seen[number] = true
end
local function reached()
  local numbers = {}
  for number in pairs(seen) do
    numbers[#numbers + 1] = number
  end
  seen = {}
  return numbers
end
"""
FIRST_LINE = 'change it there.\\n"\n'
REACHED = """
    redis.register_function({
      function_name = library .. '_reached',
      callback = reached,
      flags = { 'no-writes', 'allow-stale' },
    })
"""
REGISTRATION = "  register = function(library)\n"


@cache
def parser() -> Parser:
    """Return the parser of Lua."""
    import tree_sitter
    import tree_sitter_lua

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_lua.language()))


def walk(node: Node) -> Iterator[Node]:
    """Return a node and all below it, in the order of the text."""
    yield node
    for child in node.children:
        yield from walk(child)


def text(node: Node) -> str:
    """Return a node's text."""
    assert node.text is not None
    return node.text.decode()


def field(node: Node, name: str) -> Node:
    """Return a child that the grammar promises."""
    child = node.child_by_field_name(name)
    assert child is not None, (name, node)
    return child


def is_statement(node: Node) -> bool:
    """Return whether a node stands in a block of a function."""
    parent = node.parent
    return (
        node.is_named
        and node.type != "comment"
        and parent is not None
        and parent.type == "block"
        and any(above.type.startswith("function_de") for above in above(node))
    )


def above(node: Node) -> Iterator[Node]:
    """Return the nodes that a node is in, the nearest first."""
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def in_error(node: Node) -> bool:
    """Return whether a node is a part of an error's text."""
    return any(
        each.type == "arguments"
        and each.parent is not None
        and each.parent.type == "function_call"
        and ERRORS.fullmatch(text(field(each.parent, "name")))
        for each in above(node)
    )


def is_parity(node: Node) -> bool:
    """Return whether only the remainder by 2 counts: a sum has that of the difference."""
    parent = node.parent
    while parent is not None and parent.type == "parenthesized_expression":
        parent = parent.parent
    return (
        parent is not None
        and parent.type == "binary_expression"
        and text(field(parent, "operator")) == "%"
        and text(field(parent, "right")) == "2"
    )


def is_command(node: Node) -> bool:
    """Return whether a word names the command of which arguments are checked."""
    call = node.parent and node.parent.parent
    return (
        call is not None
        and call.type == "function_call"
        and text(field(call, "name")).startswith("Arguments.")
    )


# Each of these yields, for a node, what it may become.


def of_binary(node: Node) -> Iterator[tuple[str, Node, str]]:
    """Operators of two operands."""
    operator, left, right = (
        field(node, "operator"),
        field(node, "left"),
        field(node, "right"),
    )
    sign = text(operator)
    for other in COMPARISONS.get(sign, ()):
        yield "comparison", operator, other
    if sign in ARITHMETIC and not is_parity(node):
        yield "arithmetic", operator, ARITHMETIC[sign]
    if sign == "and":
        yield "and, or", operator, "or"
        yield "operand dropped", node, text(left)
        yield "operand dropped", node, text(right)
    if sign == "or" and text(right) not in NOTHING:
        yield "and, or", operator, "and"
        yield "default dropped", node, text(left)


def of_unary(node: Node) -> Iterator[tuple[str, Node, str]]:
    """`not` and the minus."""
    if text(field(node, "operator")) in {"not", "-"}:
        yield "sign dropped", node, text(field(node, "operand"))


def of_number(node: Node) -> Iterator[tuple[str, Node, str]]:
    """Constants."""
    said = text(node)
    if not said.isdecimal():
        return
    value = int(said)
    if value > SMALL:
        yield "constant", node, "0"
        yield "constant", node, said + "0"
        return
    yield "constant", node, str(value + 1)
    if value:
        yield "constant", node, str(value - 1)


def of_boolean(node: Node) -> Iterator[tuple[str, Node, str]]:
    """true and false."""
    yield "boolean", node, "false" if node.type == "true" else "true"


def of_string(node: Node) -> Iterator[tuple[str, Node, str]]:
    """Words that have kin, and neighbours in a list of fields."""
    said = text(node)[1:-1]
    if said in KIN and not is_command(node):
        yield "kin", node, f"'{KIN[said]}'"


def of_arguments(node: Node) -> Iterator[tuple[str, Node, str]]:
    """Neighbours among the fields that are asked for."""
    given = [child for child in node.children if child.is_named]
    if not given or text(given[0]) != "'HMGET'":
        return
    for one, two in pairwise(given[2:]):
        if one.type == two.type == "string":
            swapped = text(node)
            base = node.start_byte
            swapped = (
                swapped[: one.start_byte - base]
                + text(two)
                + swapped[one.end_byte - base : two.start_byte - base]
                + text(one)
                + swapped[two.end_byte - base :]
            )
            yield "fields swapped", node, swapped


def of_dot(node: Node) -> Iterator[tuple[str, Node, str]]:
    """Functions and keys that have kin."""
    said, name = text(node), field(node, "field")
    if said in FUNCTIONS:
        yield "kin", node, FUNCTIONS[said]
    if text(field(node, "table")) == "key" and text(name) in KEYS:
        yield "kin", name, KEYS[text(name)]


def of_condition(node: Node) -> Iterator[tuple[str, Node, str]]:
    """Conditions that always or never hold."""
    condition = field(node, "condition")
    if node.type in {"if_statement", "elseif_statement"}:
        yield "condition", condition, "true"
    if node.type != "repeat_statement":
        yield "condition", condition, "false"
    else:
        yield "condition", condition, "true"


def of_return(node: Node) -> Iterator[tuple[str, Node, str]]:
    """Returned values that are forgotten."""
    values = [child for child in node.children if child.is_named]
    if not values:
        return
    if text(values[0]) not in {"nil", "false", "true"}:
        yield "return", node, "return nil"
    several = [child for child in values[0].children if child.is_named]
    if len(several) > 1 and text(several[-1]) not in NOTHING:
        ends = several[-2].end_byte - node.start_byte
        yield "return", node, text(node)[:ends]


def of_statement(node: Node) -> Iterator[tuple[str, Node, str]]:
    """Statements that are forgotten."""
    if is_statement(node):
        yield "statement dropped", node, ""


OPERATORS = {
    "binary_expression": of_binary,
    "unary_expression": of_unary,
    "number": of_number,
    "true": of_boolean,
    "false": of_boolean,
    "string": of_string,
    "arguments": of_arguments,
    "dot_index_expression": of_dot,
    "if_statement": of_condition,
    "elseif_statement": of_condition,
    "while_statement": of_condition,
    "repeat_statement": of_condition,
    "return_statement": of_return,
    "function_call": of_statement,
    "assignment_statement": of_statement,
    "break_statement": of_statement,
}


class Lua:
    """The modules of lua/, built into one file."""

    name = "lua"
    suites: Sequence[str] = ("tests/lua", "tests/core", *IN_DJANGO)
    share = 1 / 20
    patience = float("inf")

    def rooms(self, module: str) -> Sequence[str]:
        """Return all folders: each runs on the same core."""
        return self.suites

    def modules(self, root: Path) -> list[str]:
        """Return the paths of the modules, from the root on, sorted."""
        return sorted(
            str(path.relative_to(root)) for path in (root / "lua").rglob("*.lua")
        )

    def places(self, module: str, source: bytes) -> list[list[Mutant]]:
        """Return the changes of a module that make sense, by the place they change."""
        places: dict[tuple[int, int], list[Mutant]] = {}
        for node in walk(parser().parse(source).root_node):
            if node.type not in OPERATORS or not node.is_named or in_error(node):
                continue
            found = OPERATORS[node.type](node)
            for operator, changed, replacement in found:
                mutant = Mutant(
                    module,
                    changed.start_byte,
                    changed.end_byte,
                    replacement.encode(),
                    operator,
                )
                # What an operator's operands become belongs to the operator.
                place = (node.start_byte, node.end_byte)
                places.setdefault(place, []).append(mutant)
        return [places[place] for place in sorted(places)]

    def compiles(self, source: bytes) -> bool:
        """Return whether a module is written as the language wants it."""
        return not parser().parse(source).root_node.has_error

    def statements(self, source: bytes, first: int) -> list[Statement]:
        """Return the statements inside functions, numbered from `first` on."""
        found = filter(is_statement, walk(parser().parse(source).root_node))
        return [
            Statement(number, node.start_byte, node.end_byte)
            for number, node in enumerate(found, first)
        ]

    def watch(self, root: Path, statements: dict[str, list[Statement]]) -> None:
        """Change a copy of the tree so that each statement reached is remembered."""
        for module, all_of_it in statements.items():
            path = root / module
            source = path.read_bytes()
            for statement in reversed(all_of_it):
                call = f"see({statement.number}); ".encode()
                source = source[: statement.start] + call + source[statement.start :]
            path.write_bytes(source)
        insert(root / "lua" / "build.py", FIRST_LINE, f"FIRST_LINE += {SEEN!r}\n")
        insert(root / "lua" / "main.lua", REGISTRATION, REACHED)
        self.build(root)

    def begin(self) -> None:
        """Do nothing: no Lua runs in this process."""

    def executed(self) -> Iterable[int]:
        """Return nothing."""
        return ()

    def reached(self, server: redis.Redis) -> Iterable[int]:
        """Return the numbers reached on a server since the last time."""
        import redis

        # Some servers are gone by now, or know no functions.
        with contextlib.suppress(redis.RedisError):
            for library in server.function_list("qless_*"):
                name = library[library.index(b"library_name") + 1].decode()
                # Tests load libraries of their own, which do not tell.
                with contextlib.suppress(redis.ResponseError):
                    yield from server.fcall(f"{name}_reached", 0)

    def build(self, root: Path) -> None:
        """Make in a copy of the tree what is generated from the modules."""
        subprocess.run([sys.executable, "lua/build.py"], cwd=root, check=True)

    def wanted(self, nodeid: str) -> bool:
        """Return whether a test is worth its time: scripts and functions are alike."""
        return "test_calling" in nodeid or not re.search(r"[\[-]script\b", nodeid)


def insert(path: Path, after: str, addition: str) -> None:
    """Insert a text behind another that stands in a file once."""
    before, found, behind = path.read_text().partition(after)
    assert found and after not in behind, (path, after)
    path.write_text(before + after + addition + behind)
