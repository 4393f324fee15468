"""Code that mypy and pyright check and that is never run: see `usage.py`."""
