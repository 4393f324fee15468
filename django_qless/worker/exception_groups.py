"""Exception groups, which asyncio.TaskGroup raises: what they say about a run.

A group is what is in it: Fail decides before Retry, and Retry before all others. If all
that is in it is of one class, so is the group.
"""

from __future__ import annotations

from django_qless.exceptions import Fail, Retry


def leaves_of(error: BaseException) -> list[BaseException]:
    """Return the exceptions in a group, nested ones too; of no group, itself."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        first = waiting.pop()
        inner = first.exceptions if isinstance(first, BaseExceptionGroup) else ()
        waiting += reversed(inner)
        if not inner:
            found.append(first)
    return found


def decisive(error: BaseException) -> BaseException:
    """Return the exception by which a run ends: the one in a group that decides.

    The group itself if it has several kinds, neither Fail nor Retry among them.
    """
    leaves = leaves_of(error)
    for kind in (Fail, Retry):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0] if len(set(map(type, leaves))) == 1 else error
