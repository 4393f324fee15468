"""The options of `qless_worker`."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from django_qless.management.base import integer, megabytes, positive_seconds, seconds
from django_qless.management.reload import TRIAL
from django_qless.worker.options import BLOCK_LIMIT, SHUTDOWN_TIMEOUT
from django_qless.worker.pool import POOLS
from django_qless.worker.reservers import RESERVERS

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


def add_worker_options(parser: CommandParser) -> None:
    """Add all options, in groups."""
    for title, add in (
        ("which jobs", _add_queue_options),
        ("how they are run", _add_pool_options),
        ("detached jobs", _add_detached_options),
        (
            "when a child is replaced, once it has finished its jobs",
            _add_recycling_options,
        ),
        ("start and end", _add_lifetime_options),
    ):
        add(parser.add_argument_group(title))


def _add_queue_options(group: Any) -> None:
    add = group.add_argument
    add(
        "queues",
        nargs="*",
        metavar="queue",
        help="a name, or a glob with * and ?; the most urgent first (default: all)",
    )
    add(
        "-x",
        "--exclude",
        action="append",
        default=[],
        metavar="QUEUE",
        help="leave out this queue or glob (may be repeated)",
    )
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--alias",
        action="append",
        help="which alias of the setting QLESS (default: that of the queues by "
        "QLESS_ROUTES, else default); may be repeated: one worker serves them all",
    )
    which.add_argument(
        "--all-aliases", action="store_true", help="serve all aliases of QLESS"
    )
    add(
        "--reserver",
        choices=RESERVERS,
        default="ordered",
        metavar="NAME",
        help="how the next queue is chosen: see below (default: %(default)s)",
    )


def _add_pool_options(group: Any) -> None:
    add = group.add_argument
    add(
        "--pool",
        choices=list(POOLS),
        default="prefork",
        metavar="NAME",
        help="where the jobs run: see below (default: %(default)s)",
    )
    add(
        "--concurrency",
        type=integer(),
        default=1,
        metavar="N",
        help="how many jobs at once (default: %(default)s)",
    )
    add(
        "--block-limit",
        type=positive_seconds,
        default=BLOCK_LIMIT,
        metavar="SECONDS",
        help="coroutines: how long a job may block the event loop before its stack "
        "is dumped and the job is abandoned (default: %(default)g)",
    )
    add(
        "--sandbox",
        type=folder,
        metavar="PATH",
        help="the folder for the jobs' temporary files (default: the system's temporary "
        "folder)",
    )


def _add_detached_options(group: Any) -> None:
    add = group.add_argument
    add(
        "--detached-limit",
        type=integer(),
        metavar="N",
        help="how many of a queue may run at once on this host (default: detached_limit "
        "of the queue in QUEUES, or 1)",
    )
    add(
        "--keep-detached",
        action=argparse.BooleanOptionalAction,
        help="let them run on when the worker is stopped, or hand them back as other "
        "jobs (default: let them run on, except in a container and in a systemd unit "
        "without KillMode=process)",
    )


def _add_recycling_options(group: Any) -> None:
    add = group.add_argument
    add(
        "--max-jobs",
        type=integer(),
        metavar="N",
        help="after about this many jobs (default: never)",
    )
    add(
        "--max-memory",
        type=megabytes,
        metavar="MB",
        help="when it uses more than this many megabytes (default: never)",
    )
    add(
        "--max-age",
        type=positive_seconds,
        metavar="SECONDS",
        help="when it is about this old (default: never)",
    )


def _add_lifetime_options(group: Any) -> None:
    add = group.add_argument
    add(
        "--name",
        help="a unique name (default: host, process id, random digits)",
    )
    add(
        "--resume",
        action="store_true",
        help="take over the jobs that a worker of this --name still holds",
    )
    add("--burst", action="store_true", help="end when the queues are empty")
    add(
        "--max-idle",
        type=positive_seconds,
        metavar="SECONDS",
        help="end when no job has run for this long (default: never)",
    )
    add(
        "--shutdown-timeout",
        type=seconds,
        default=SHUTDOWN_TIMEOUT,
        metavar="SECONDS",
        help="how long running jobs may go on after a TERM (default: %(default)g)",
    )
    add(
        "--reload",
        action=argparse.BooleanOptionalAction,
        help="restart when the code has changed and works; running jobs finish "
        "first (default: the setting DEBUG)",
    )
    add(
        "--health-file",
        metavar="PATH",
        help="write there that the worker is alive, for django_qless.health",
    )
    add(TRIAL, action="store_true", dest="trial", help=argparse.SUPPRESS)


def folder(text: str) -> str:
    """Return the absolute path of a writable folder."""
    path = os.path.abspath(text)
    if not os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"there is no folder {text}: create it first")
    if not os.access(path, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"the folder {text} is not writable")
    return path
