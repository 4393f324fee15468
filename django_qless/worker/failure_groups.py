"""The failure groups that django_qless sets itself: what they mean, and what to do.

The reference is written from this table. A project's own groups are the names of its
exceptions.
"""

from __future__ import annotations

from typing import NamedTuple


class FailureGroup(NamedTuple):
    """A failure group; its texts are Markdown."""

    name: str
    """The group; `<queue>` stands for the name of one."""
    meaning: str
    remedy: str


GROUPS = (
    FailureGroup(
        "timeout",
        (
            "The job ran longer than its `timeout`, or was killed at its "
            "`hard_timeout`, and had no retries left."
        ),
        (
            "The message has the stack where it hung. Give it more time, or make it "
            "do less."
        ),
    ),
    FailureGroup(
        "worker-crash",
        (
            "The process that ran the job died for the fourth time: a "
            "signal, `os._exit`, out of memory, a blocked event loop. Three deaths "
            "are forgiven, apart from the retries."
        ),
        (
            "The message names the signal or the exit code. After signal 9, look at "
            "the memory of the machine."
        ),
    ),
    FailureGroup(
        "unknown-job",
        ("For ten minutes every worker that took the job had no code of that name."),
        (
            "Deploy the code, or add the old name to `aliases=`, then retry. Is the "
            "app in `INSTALLED_APPS`, the module called `jobs` or `tasks`?"
        ),
    ),
    FailureGroup(
        "row-gone",
        (
            "The row that the job runs on, or one among its arguments, is not in the "
            "database. No retries are used."
        ),
        (
            'If that is normal, say `missing="ignore"`. Else: was the job enqueued '
            "with `on_commit=False`, before the row was committed?"
        ),
    ),
    FailureGroup(
        "bad-arguments",
        (
            "The data of the job are not in the form in which django_qless writes "
            "arguments, or in that of a newer version."
        ),
        (
            "Another program wrote it, or a newer django_qless: upgrade the workers, "
            "then retry."
        ),
    ),
    FailureGroup(
        "cannot-decrypt",
        (
            "No key in `ENCRYPTION_KEYS` opens the data of the job, or they are "
            "damaged. It did not run."
        ),
        ("Add the key with which it was enqueued, then retry."),
    ),
    FailureGroup(
        "bad-result",
        (
            "The job did its work, but returned what JSON cannot carry, or more than "
            "64 KiB of JSON. Or it returned a generator, and nothing was done. It is "
            "not run again."
        ),
        (
            "Return less, or a reference; or set `result_ttl=0`. Go through a "
            "generator in the job. A retry does the work again."
        ),
    ),
    FailureGroup(
        "bad-rows",
        ("`rows=` of a schedule gave something other than a queryset of that model."),
        ("Correct the function; the next tick uses it."),
    ),
    FailureGroup(
        "RowsNotDeclared",
        (
            "A worker with other code met the tick of a schedule for rows: its code "
            "declares no `rows=`."
        ),
        ("Deploy the same code everywhere, then retry."),
    ),
    FailureGroup(
        "expired",
        ("The job's turn came after its `expires`. It did not run."),
        ("Add workers, or a longer `expires`. A retry runs it without the limit."),
    ),
    FailureGroup(
        "dependency-canceled",
        (
            "A job that this one waited for was cancelled with its workflow, or with "
            "a job that it depended on itself; and `on_failure` of this one is "
            '`"block"`.'
        ),
        ("Cancel it, or enqueue it again."),
    ),
    FailureGroup(
        "failed-retries-<queue>",
        (
            "The lock was lost once more than there were retries; or the job raised "
            "`Retry` without a group and had none left."
        ),
        ("See the history: `lost` means that workers vanished or stood still."),
    ),
    FailureGroup(
        "corrupt-record",
        (
            "A field of the record cannot be read. The message names the field and "
            "its content."
        ),
        (
            "Find out what writes to these keys. A retry puts defaults in place of "
            "such fields."
        ),
    ),
    FailureGroup(
        "settlement-refused",
        (
            "The server refused what the worker reported about the end of the run, "
            "for a reason other than a lost lock."
        ),
        (
            "The message has the server's words. Check the arguments of `move_to`; else "
            "report it as a bug."
        ),
    ),
    FailureGroup(
        "<queue>-method-missing",
        (
            "A job that is a class has neither a method of the queue's name nor "
            "`process`."
        ),
        ("Add the method, or move the job to a queue that the class serves."),
    ),
    FailureGroup(
        "<queue>-method-type",
        ("That method of the class is not static."),
        ("Put `@staticmethod` above it."),
    ),
    FailureGroup(
        "other",
        (
            "There are 1,000 groups already, and further ones share this list. Each "
            "job still knows its own group."
        ),
        ("Name groups by kind, not by id, and clear old ones."),
    ),
)
