"""Draws mutants: the same ones again for the same seed and the same modules."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.mutants.mutant import Language, Mutant


def draw(
    language: Language, root: Path, seed: int | str, only: Sequence[str] = ()
) -> Iterator[Mutant]:
    """Return mutants in the order drawn, one at most for each place.

    Each place of each module is as likely as any other, so that a module is drawn by its
    weight. `only` are names of modules, without folder and suffix.
    """
    dice = random.Random(f"{language.name} {seed}")
    places = []
    sources = {}
    for module in language.modules(root):
        if not only or stem(module) in only:
            sources[module] = (root / module).read_bytes()
            places += language.places(module, sources[module])
    dice.shuffle(places)
    for place in places:
        mutant = dice.choice(place)
        source = sources[mutant.module]
        changed = mutant.applied(source)
        if changed != source and language.compiles(changed):
            yield mutant


def stem(path: str) -> str:
    """Return the name of a file without folder and suffix."""
    return path.rpartition("/")[2].partition(".")[0]
