"""Measured jobs of entities.

Apart from `jobs.py`, which builds from before there were entities can import, too.
"""

from __future__ import annotations

import os

from django_qless import job

from .jobs import ticks


@job("entities", entity=True)
def entity(batch: dict[str, list[int]]) -> None:
    """One byte for each entity; each has one payload."""
    os.write(ticks, b"." * len(batch))


@job("entity-batches", entity=True, batch_size=10)
def entities(batch: dict[str, list[int]]) -> None:
    """The same, ten in a run."""
    os.write(ticks, b"." * len(batch))
