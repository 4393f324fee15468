"""Which changes of Lua are tried, and how the statements reached are remembered."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest

from tests.lua.caller import Core, Library
from tests.mutants.drawing import draw
from tests.mutants.lua import Lua
from tests.mutants.reach import numbered
from tests.mutants.tree import ROOT, copied
from tests.real_servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LUA = Lua()


def changes(source: str) -> set[str]:
    """Return the texts that a module may become."""
    encoded = source.encode()
    return {
        mutant.applied(encoded).decode()
        for place in LUA.places("lua/any.lua", encoded)
        for mutant in place
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", {"x = a <= b", "x = a >= b"}),
        ("x = a ~= b", {"x = a == b"}),
        ("x = a + b", {"x = a - b"}),
        ("x = (a + b) % 3", {"x = (a - b) % 3", "x = (a + b) % 4", "x = (a + b) % 2"}),
        ("x = (a + b) % 2", {"x = (a + b) % 3", "x = (a + b) % 1"}),
        ("x = a and b", {"x = a or b", "x = a", "x = b"}),
        ("x = a or b", {"x = a and b", "x = a"}),
        ("x = not a", {"x = a"}),
        ("x = -a", {"x = a"}),
        ("x = y[3]", {"x = y[4]", "x = y[2]"}),
        ("x = 1000", {"x = 0", "x = 10000"}),
        ("x = true", {"x = false"}),
        ("x = math.min(a)", {"x = math.max(a)"}),
        ("x = key.dependents(a)", {"x = key.dependencies(a)"}),
        ("call('LPUSH', a)", {"call('RPUSH', a)"}),
        ("call('HMGET', a, 'b', 'c')", {"call('HMGET', a, 'c', 'b')"}),
        ("if a then b() end", {"if true then b() end", "if false then b() end"}),
        ("while a do b() end", {"while false do b() end"}),
        (
            "function f() return a, b end",
            {"function f() return nil end", "function f() return a end"},
        ),
        ("function f() a(b) end", {"function f()  end"}),
        ("function f() a = b end", {"function f()  end"}),
        ("error('a' .. 1 + 2)", set()),
        ("Errors.raise('waiting', 1 + 2)", set()),
        ("x = 'failed 1' -- a < b", set()),
        ("Arguments.name('depends', 'jid', a)", set()),
    ],
)
def test_what_is_tried(source: str, expected: set[str]) -> None:
    assert changes(source) == expected


def test_a_seed_draws_the_same_again_and_another_seed_others() -> None:
    first, again, other = (
        set(islice(draw(LUA, ROOT, seed), 40)) for seed in ("a", "a", "b")
    )
    assert first == again
    assert len(first) == 40
    assert len(first & other) < 5


def test_what_is_drawn_is_lua_and_another_text() -> None:
    for mutant in islice(draw(LUA, ROOT, "test"), 100):
        source = (ROOT / mutant.module).read_bytes()
        assert mutant.applied(source) != source
        assert LUA.compiles(mutant.applied(source))
        assert mutant.diff(source)


def test_only_the_modules_that_are_wanted_are_drawn_from() -> None:
    drawn = islice(draw(LUA, ROOT, "test", ["settle", "pop"]), 30)
    assert {mutant.module for mutant in drawn} == {"lua/settle.lua", "lua/pop.lua"}


def test_what_no_lua_is_does_not_compile() -> None:
    assert LUA.compiles(b"x = 1")
    assert not LUA.compiles(b"x = = 1")


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server where no other test has left a library, and none finds these."""
    with Server("valkey") as server:
        yield server


def test_a_watched_tree_tells_what_was_reached(own_server: Server) -> None:
    statements = numbered(LUA)
    with copied() as tree:
        LUA.watch(tree, statements)
        library = Library(tree / "django_qless" / "core" / "qless.lua")
    client = own_server.client(decode_responses=True)
    library.load(client, "function")
    core = Core(client, "function", library)

    def reached() -> set[str]:
        numbers = set(LUA.reached(own_server.client()))
        return {
            module
            for module, known in statements.items()
            if any(each.number in numbers for each in known)
        }

    reached()
    core.ours("put", "w", "queue", "jid", "klass", "{}", 0, now=0)
    put = reached()
    assert {"lua/put.lua", "lua/put_store.lua"} <= put
    assert "lua/revive.lua" not in put
    core.ours("revive", "jid", now=0)
    assert "lua/revive.lua" in reached()
    assert reached() == set()


def test_a_copy_of_the_tree_is_built_from_its_own_modules(tmp_path: Path) -> None:
    with copied() as tree:
        head = tree / "lua" / "head.lua"
        head.write_text(head.read_text() + "-- changed\n")
        LUA.build(tree)
        artefact = tree / "django_qless" / "core" / "qless.lua"
        assert "-- changed\n" in artefact.read_text()
    assert "-- changed\n" not in (ROOT / "lua" / "head.lua").read_text()
    assert not tree.exists()
