"""What the example's jobs compute, against figures counted by hand."""

from __future__ import annotations

import warnings
from pathlib import Path
from textwrap import dedent

import pytest

from codebase.analysis import Figures, measure_file, measure_source

SAMPLES = Path(__file__).parents[2] / "example_project" / "samples"


def complexity(body: str) -> int:
    """The complexity of a function with this body."""
    lines = "\n    ".join(dedent(body).strip().splitlines())
    figures = measure_source(f"def function():\n    {lines}\n")
    assert figures.functions == 1
    return figures.complexity - 1  # the module's own body is 1


@pytest.mark.parametrize(
    ("expected", "body"),
    [
        (1, "return 1"),
        (2, "if a: pass"),
        (2, "if a: pass\nelse: pass"),
        (3, "if a: pass\nelif b: pass"),
        (3, "if a and b: pass"),
        (5, "if a and b and c or d: pass"),
        (2, "return a or b"),
        (2, "return 1 if a else 2"),
        (2, "for a in b: pass\nelse: pass"),
        (2, "while a: pass"),
        (3, "while a:\n    if b: break"),
        (3, "try: pass\nexcept A: pass\nexcept B: pass\nelse: pass\nfinally: pass"),
        (2, "return [a for a in b]"),
        (4, "return {a for a in b if c if d}"),
        (3, "return {a: d for a in b for d in c}"),
        (3, "match a:\n    case 1: pass\n    case [b]: pass\n    case _: pass"),
        (2, "match a:\n    case b if b > 1: pass\n    case other: pass"),
        (1, "with a: assert b"),
        (2, "return lambda: a if b else c"),
    ],
)
def test_each_decision_counts(expected: int, body: str) -> None:
    assert complexity(body) == expected


def test_asynchronous_code_counts_the_same() -> None:
    figures = measure_source(
        "async def f():\n    async for a in b: pass\n    return [c async for c in d]\n"
    )
    assert (figures.functions, figures.complexity) == (1, 1 + 3)


def test_nested_functions_count_for_themselves() -> None:
    figures = measure_source(
        dedent(
            """
            class Outer:
                def method(self):
                    def inner():
                        if a and b:
                            return 1
                    return inner

            if __name__ == "__main__":
                Outer()
            """
        )
    )
    assert figures.functions == 2
    assert figures.classes == 1
    assert figures.hardest == "Outer.method.inner"
    assert figures.hardest_complexity == 3
    assert figures.complexity == 2 + 1 + 3  # the module's body, method, inner


def test_the_well_formed_sample() -> None:
    assert measure_file(SAMPLES / "well_formed.py") == Figures(
        lines=24,
        blank_lines=7,
        comment_lines=1,
        functions=4,
        classes=1,
        complexity=10,
        hardest="days_in_month",
        hardest_complexity=4,
    )


@pytest.mark.parametrize(
    ("source", "lines", "blank"),
    [
        ("", 0, 0),
        ("\n", 1, 1),
        ("a = 1", 1, 0),
        ("a = 1\n", 1, 0),
        ("a = 1\n\x0c\nb = 2\n", 3, 1),  # a form feed ends no line
        ('a = """\n\n# text\n"""\n\n', 5, 1),
    ],
)
def test_lines(source: str, lines: int, blank: int) -> None:
    figures = measure_source(source)
    assert (figures.lines, figures.blank_lines) == (lines, blank)
    assert figures.comment_lines == 0
    assert figures.hardest == "<module>"


def test_line_ends_and_declared_encodings_are_read(tmp_path: Path) -> None:
    file = tmp_path / "latin.py"
    file.write_bytes("# coding: latin-1\r\n\r\nname = 'Grüße'\r\n".encode("latin-1"))
    figures = measure_file(file)
    assert (figures.lines, figures.blank_lines, figures.comment_lines) == (3, 1, 1)


def test_other_peoples_warnings_stay_out_of_sight() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measure_source(r'"\d"').lines == 1


@pytest.mark.parametrize(
    ("sample", "error"),
    [
        ("wrong_encoding.py", UnicodeDecodeError),
        ("syntax_error.py", SyntaxError),
        ("missing.py", FileNotFoundError),
    ],
)
def test_what_cannot_be_measured(sample: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        measure_file(SAMPLES / sample)
