"""The worker. It has three parts, and any reserver works with any pool.

    reservers/    which job next?
    execution.py    how is one job run, and what becomes of it?
    pools/          how many at once, and how are they kept apart?

`worker.py` puts them together. Nothing here imports Django: what a running job needs of
a framework comes through an Environment (`environment.py`).
"""

from __future__ import annotations
