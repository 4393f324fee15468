"""A module of jobs that starts a thread while it is imported."""

from __future__ import annotations

import threading

threading.Thread(
    target=threading.Event().wait, name="reporter of figures", daemon=True
).start()
