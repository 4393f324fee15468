"""Runs demo.py on a cluster of six nodes, which it starts and ends.

    python demo_cluster.py             the running Python's standard library
    python demo_cluster.py SOURCE      the Python files below a directory

The nodes come from the extra `embedded`, as the server of demo.py does. Three have a third
of the slots each, and each of these has a replica. They and their data end with the demo.
"""

from __future__ import annotations

import os
import sys

import demo
from local_cluster import LocalCluster, NoCluster


def main() -> int:
    """Runs the demonstration and returns the exit code."""
    try:
        with LocalCluster() as cluster:
            print(f"Six nodes: {' '.join(cluster.urls)}", file=sys.stderr, flush=True)
            # Read by project/settings.py, here and in the worker's processes.
            os.environ["DEMO_CLUSTER"] = " ".join(cluster.urls)
            return demo.main()
    except NoCluster as error:
        print(f"The cluster cannot be started: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
