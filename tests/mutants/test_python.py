"""Which changes of Python are tried, and how the statements executed are recorded."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from tests.mutants import seen
from tests.mutants.drawing import draw
from tests.mutants.python import LONE, Python
from tests.mutants.reach import numbered
from tests.mutants.tree import ROOT, copied, environment

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = Python()


def changes(source: str) -> set[str]:
    """Return the texts that a module may become."""
    encoded = source.encode()
    return {
        mutant.applied(encoded).decode()
        for place in PYTHON.places("django_qless/any.py", encoded)
        for mutant in place
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", {"x = a <= b", "x = a >= b"}),
        ("x = a is not b", {"x = a is b"}),
        ("x = (a) not in (b)", {"x = (a) in (b)"}),
        ("x = a + b", {"x = a - b"}),
        ("x = a + 'é'", set()),
        ("x = 'é', a and b", {"x = 'é', a or b", "x = 'é', (a)", "x = 'é', (b)"}),
        ("x = not a", {"x = (a)"}),
        ("x = y[3]", {"x = y[4]", "x = y[2]"}),
        ("x = 1000", {"x = 0", "x = 10000"}),
        ("x = True", {"x = False"}),
        ("x = 'waiting'", {'x = "scheduled"'}),
        ("x = min(a)", {"x = max(a)"}),
        ("x = f(a, b=c, d=e)", {"x = f(a,  d=e)", "x = f(a, b=c, )"}),
        ("if a:\n    b()", {"if True:\n    b()", "if False:\n    b()"}),
        ("if TYPE_CHECKING:\n    import b", set()),
        ("while a:\n    b()", {"while False:\n    b()"}),
        ("x = [a for a in b if c]", {"x = [a for a in b if True]"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("def f():\n    return None", set()),
        ("def f():\n    a = b", {"def f():\n    pass"}),
        ("def f():\n    await a(b)", {"def f():\n    pass"}),
        ("def f():\n    log_event(1, name=2)", set()),
        ("x = Broken(f'{a - 1}', 'waiting')", set()),
        ("x: Literal[1]", set()),
        ("@dataclass(slots=True)\nclass A: pass", set()),
    ],
)
def test_what_is_tried(source: str, expected: set[str]) -> None:
    assert changes(source) == expected


def test_mutants_are_valid_python_and_differ() -> None:
    for mutant in islice(draw(PYTHON, ROOT, "test"), 100):
        source = (ROOT / mutant.module).read_bytes()
        assert mutant.applied(source) != source
        assert PYTHON.compiles(mutant.applied(source))
    assert not PYTHON.compiles(b"x = = 1")


def test_each_module_has_a_room_with_tests() -> None:
    for module in PYTHON.modules(ROOT):
        assert set(PYTHON.rooms(module)) <= set(PYTHON.suites)
        assert all((ROOT / room).exists() for room in PYTHON.rooms(module))


def test_a_watched_tree_records_what_is_executed(tmp_path: Path) -> None:
    """Also what a process executes that the test has started."""
    statements = numbered(PYTHON)
    code = "from django_qless.core.put import new_jid; new_jid()"
    seen_by_test = tmp_path / "numbers"
    with copied() as tree:
        PYTHON.watch(tree, statements)
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=tree,
            env={**environment(tree), seen.VARIABLE: str(seen_by_test)},
            check=True,
        )
        lone = [sys.executable, "-I", "-S", "-c", "import runpy; "]
        lone[-1] += f"runpy.run_path({str(tree / LONE)!r})"
        subprocess.run(lone, check=True)
    numbers = set(map(int, seen_by_test.read_text().split()))
    reached = {
        module
        for module, known in statements.items()
        if any(each.number in numbers for each in known)
    }
    assert "django_qless/core/put.py" in reached
    assert "django_qless/core/client.py" not in reached


def test_numbers_are_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(seen.VARIABLE, "")
    monkeypatch.setattr(seen, "_seen", set())
    seen.see(4)  # by an import, before anybody asked
    seen.begin(tmp_path / "numbers")
    for number in (3, 5, 3):
        seen.see(number)
    assert seen.taken() == {3, 4, 5}
    assert seen.taken() == set()
    seen.see(3)
    assert seen.taken() == {3}
