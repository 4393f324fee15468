"""Calls of the Lua core, by whichever build of the library is installed."""

from __future__ import annotations

import inspect

from django_qless import queues
from django_qless.core import Client

#: The class of calls: builds have it in modules of different names, but each command makes one.
Call = type(inspect.getattr_static(Client, "deregister").build(None, ["worker"]))


def run(command, *args, kind="write"):
    """Call the core as the library does."""
    return queues.client.run(Call(command, args, kind))
