"""The worker. It has three parts, and any reserver works with any pool.

    reservers.py    which job is next
    execution.py    how one job is run and finished
    pools/          how many run at once, and how they are isolated

`worker.py` puts them together. Nothing here imports Django: a running job meets its
framework through an Environment (`environment.py`).
"""

from __future__ import annotations
